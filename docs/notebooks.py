"""Notebooks of the tutorials: made from their Markdown, executed, and offered for download on the site.

A Python block becomes a cell, a console block a cell of ``!`` commands, and everything else text. What a
block promises to print is compared with what its cell printed.
"""

from __future__ import annotations

import base64
import json
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Notebook = dict[str, Any]
Cell = dict[str, Any]

FENCE = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)]+)\)")
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!\w+://)[^)]+\)")
PROMISE = re.compile(r"^\s*print\(.*\)  # (.*)$", re.MULTILINE)
TIMEOUT = 120  # seconds for a cell, and for the kernel to start

# Runs `!contig ...` in the kernel itself, where torch is loaded already: the output is that of a process of
# its own, which knows nothing of a notebook, and comes sooner.
SETUP = """
import builtins, os, shlex
from IPython import get_ipython
from typer.testing import CliRunner
from contig.cli import app

for name in ("FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE"):  # a kernel sets them; bars do not read well later
    os.environ.pop(name, None)

def run_command(text):
    shell = builtins.__dict__.pop("get_ipython")
    try:
        done = CliRunner().invoke(app, shlex.split(text.removeprefix("contig ")))
    finally:
        builtins.get_ipython = shell
    print(done.output, end="")
    if done.exit_code:
        raise RuntimeError(f"{text} failed: {done.exception!r}")

get_ipython().system = run_command
"""


def tutorial_notebook(markdown: str, folder: Path) -> Notebook:
    """Make a notebook from a page; ``folder`` is that of the page, for its images."""
    cells, done = [], 0
    for block in FENCE.finditer(markdown):
        cells += text_cells(markdown[done : block.start()], folder)
        cells.append(code_cell(commands(block[2]) if block[1] == "console" else block[2].strip()))
        done = block.end()
    cells += text_cells(markdown[done:], folder)
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    language = {"name": "python", "file_extension": ".py", "mimetype": "text/x-python"}
    metadata = {"kernelspec": kernel, "language_info": language}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def text_cells(markdown: str, folder: Path) -> list[Cell]:
    """Return text as one cell, or none if there is nothing but blanks; images travel with it."""
    attachments: dict[str, dict[str, str]] = {}

    def attach(image: re.Match[str]) -> str:
        path = folder / image[2]
        attachments[path.name] = {"image/png": base64.b64encode(path.read_bytes()).decode()}
        return f"![{image[1]}](attachment:{path.name})"

    text = LINK.sub(r"\1", IMAGE.sub(attach, markdown)).strip()  # other pages are not next to a download
    if not text:
        return []
    cell: Cell = {"cell_type": "markdown", "metadata": {}, "source": text}
    return [cell | ({"attachments": attachments} if attachments else {})]


def code_cell(source: str) -> Cell:
    """Return a cell that has not been run."""
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}


def commands(console: str) -> str:
    """Return the commands of a console block as a notebook runs them, without their output."""
    lines = re.sub(r"\\\n\s*", "", console).splitlines()
    return "\n".join(f"!{line.removeprefix('$ ')}" for line in lines if line.startswith("$ "))


# -- running ------------------------------------------------------------------------------------------------


def execute(notebooks: dict[str, Notebook]) -> dict[str, str]:
    """Run notebooks, each in an empty folder, and return them with their outputs as JSON by name."""
    import nbformat

    with tempfile.TemporaryDirectory(prefix="contig-notebooks-") as work, kernel(work) as (manager, client):
        done = {}
        for name, notebook in notebooks.items():
            node = nbformat.from_dict(notebook)
            nbformat.validate(node)
            (Path(work) / name).mkdir()
            client.execute_interactive(f"%reset -f\n{SETUP}\nos.chdir({str(Path(work) / name)!r})")
            _run_cells(node, manager, client, name)
            done[name] = json.dumps(node, indent=1, ensure_ascii=False) + "\n"
        return done


@contextmanager
def kernel(folder: str) -> Iterator[tuple[Any, Any]]:
    """Start one kernel for all notebooks, because loading torch takes longer than most of their cells."""
    from jupyter_client.manager import KernelManager

    manager = KernelManager(kernel_name="python3", transport="ipc", ip=str(Path(folder) / "kernel"))
    manager.start_kernel(cwd=folder)
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=TIMEOUT)
    try:
        yield manager, client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def _run_cells(node: Any, manager: Any, client: Any, name: str) -> None:
    from nbclient import NotebookClient

    runner = NotebookClient(node, km=manager, timeout=TIMEOUT)
    runner.kc = client
    count = 0
    for number, cell in enumerate(node.cells):
        if cell.cell_type != "code":
            continue
        runner.execute_cell(cell, number)
        count += 1
        cell.execution_count = count  # the kernel counts those of earlier notebooks, too
        printed = "".join(one.text for one in cell.outputs if one.get("name") == "stdout").splitlines()
        if (promised := PROMISE.findall(cell.source)) and promised != printed:
            raise ValueError(f"{name}: cell {count} promises {promised} and prints {printed}")
        cell.metadata.pop("execution", None)  # times, which would make every build differ
