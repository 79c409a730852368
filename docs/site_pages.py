"""What the site makes itself: pages from the code (commands, models, the Python API) and notebooks."""

from __future__ import annotations

import html
import inspect
import re
import sys
from pathlib import Path
from typing import Any

import notebooks
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

TUTORIALS = "tutorials"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    pages = {"commands.md": commands_page(), "models.md": models_page(), "reference.md": reference_page()}
    for name, content in pages.items():
        files.append(File.generated(config, name, content=content))
    for name, content in tutorial_notebooks(Path(config.docs_dir) / TUTORIALS).items():
        files.append(File.generated(config, f"{TUTORIALS}/{name}.ipynb", content=content))
    return files


def tutorial_notebooks(folder: Path) -> dict[str, str]:
    """Make a notebook from each tutorial and run it."""
    pages = {page.stem: page.read_text("utf-8") for page in sorted(folder.glob("*.md"))}
    return notebooks.execute(
        {name: notebooks.tutorial_notebook(text, folder) for name, text in pages.items()}
    )


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Offer the notebook of a tutorial below its title."""
    path = Path(page.file.src_uri)
    if path.parent.name != TUTORIALS:
        return markdown
    link = f"[Download as a notebook]({path.stem}.ipynb){{ .notebook download={path.stem}.ipynb }}"
    title, _, rest = markdown.partition("\n")
    return f"{title}\n\n{link}\n{rest}"


def commands_page() -> str:
    """Describe every command with its arguments and options."""
    from typer.main import get_command

    from contig.cli import app

    root: Any = get_command(app)
    lines = [
        "# Commands",
        "",
        "Made from the command line itself; `contig COMMAND --help` shows the same.",
        "",
    ]
    for name in root.commands:
        lines += command_section(name, root.commands[name], root)
    return "\n".join(lines)


def command_section(name: str, command: Any, root: Any) -> list[str]:
    """Describe one command."""
    context = command.make_context(name, [], resilient_parsing=True)
    params = [one for one in command.get_params(context) if "--help" not in one.opts]
    usage = " ".join(["contig", name, *command.collect_usage_pieces(context)])
    about = inspect.cleandoc(command.help or "").replace("\\[", "[")
    lines = [f"## contig {name}", "", about, "", "```text", usage, "```", ""]
    rows = [option_row(one) for one in params]
    lines += ["| argument or option | meaning |", "|---|---|", *rows, ""]
    examples = re.sub(r"\[/?[a-z ]+\]", "", command.epilog or "").removeprefix("Examples\n")
    return [*lines, "```text", *(line.strip() for line in examples.splitlines()), "```", ""]


def option_row(param: Any) -> str:
    """Describe one argument or option in a row of a table."""
    names = " ".join(code(one) for one in (*param.opts, *param.secondary_opts) if one.startswith("-"))
    metavar = f" {code(param.metavar)}" if param.metavar else ""
    shown = f"{names}{metavar}" if names else code(param.metavar or param.name.upper())
    default = f" Default: {param.show_default}." if isinstance(param.show_default, str) else ""
    return f"| {shown} | {escaped(getattr(param, 'help', '') or '')}{default} |"


def code(text: str) -> str:
    """Mark text in a table as code; between backticks, Markdown shows the backslash of an escaped bar."""
    return f"<code>{html.escape(text).replace('|', '&#124;')}</code>"


def models_page() -> str:
    """Make a card for each model: its paper, equations, departures and options."""
    from contig.models import model_class
    from contig.models.registry import REGISTRY
    from contig.options import describe

    lines = ["# Models", "", "`contig models` lists them, `contig models NAME` their options.", ""]
    for name in REGISTRY:
        kind = model_class(name)
        text = inspect.cleandoc(sys.modules[kind.__module__].__doc__ or "")
        own = inspect.cleandoc(kind.__doc__ or "")
        lines += [f"## {name}", "", fenced(text), "", *([] if own in text else [own, ""])]
        options = describe(kind.options())
        if options:
            lines += ["| option | default | meaning |", "|---|---|---|"]
            lines += [f"| `{one.name}` | `{one.default}` | {escaped(one.help)} |" for one in options]
            lines.append("")
    return "\n".join(lines)


def fenced(text: str) -> str:
    """Indented blocks of a docstring are equations; Markdown shows them as they are."""
    return text.replace("::\n", ":\n")


# Most of what a run does is in its base classes; elsewhere, members of bases would only repeat others.
INHERITED = {"Run": "    options:\n      inherited_members: true\n"}


def reference_page() -> str:
    """List every public name with its docstring."""
    import contig

    names = sorted(contig._HOME, key=str.lower)
    sections = [f"::: contig.{contig._HOME[name]}.{name}\n{INHERITED.get(name, '')}" for name in names]
    head = ["# Python API", "", "All names are in the package `contig`: `contig.fit`, `contig.Run`, ....", ""]
    return "\n".join([*head, *sections])


def escaped(text: str) -> str:
    """Escape what a Markdown table or rich markup would take for its own."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|").replace("\\[", "[")
