"""The commands and programs of the documentation run as written, without a network."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pyarrow.parquet as pq
import pytest
from support.commands import Answer
from support.labels import quick_classifiers
from support.trained import fast_training

from contig.data.catalog import DATASETS
from contig.data.datasets import load_dataset
from contig.data.readers import READERS
from contig.experiments.recipes import read_recipes
from contig.models.registry import REGISTRY as MODELS
from contig.tasks.registry import REGISTRY as TASKS

REGISTRIES = (MODELS, TASKS, READERS, DATASETS)
ROOT = Path(__file__).resolve().parent.parent
TUTORIALS = tuple(
    f"docs/tutorials/{path.name}" for path in sorted((ROOT / "docs" / "tutorials").glob("*.md"))
)
PAGES = ("README.md", "docs/guide.md", "CONTRIBUTING.md", "docs/index.md", "docs/concepts.md", *TUTORIALS)
NOWHERE = "http://127.0.0.1:9"  # the discard port: a download fails at once
SHELL_SYNTAX = re.compile(r"[|&;<>()$`*?#]")  # in a command of contig: let a shell run the whole block
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    language: str
    page: str
    line: int  # of its first line in the page
    text: str

    def __str__(self) -> str:
        return f"{self.page}-{self.language}-line{self.line}"


def blocks(markdown: str, page: str, *languages: str) -> list[Block]:
    found = [
        Block(m[1], page, markdown.count("\n", 0, m.start(2)) + 1, m[2]) for m in FENCE.finditer(markdown)
    ]
    return [block for block in found if block.language in languages]


def commands(block: Block) -> list[str]:
    """The commands of a block: all lines of ``bash``, those after a ``$`` of ``console``."""
    lines = block.text.replace("\\\n", " ").splitlines()
    if block.language == "console":
        return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return [line for line in lines if line.strip() and not line.startswith("#")]


def make_targets(command: str) -> list[str] | None:
    """The targets of a ``make`` command; None for any other command."""
    words = command.split("#")[0].split()
    return [w for w in words[1:] if "=" not in w] if "make" in words[:1] else None


def expected_lines(block: Block) -> list[str]:
    """The lines of output that a ``console`` block shows, without ``...``."""
    if block.language != "console":
        return []
    lines = block.text.replace("\\\n", " ").splitlines()
    return [
        x for line in lines if not line.startswith("$ ") and (x := " ".join(line.split())) not in ("", "...")
    ]


def expected_prints(block: Block) -> list[str]:
    """The output that a ``python`` block promises: ``print(...)  # this``."""
    return re.findall(r"^\s*print\(.*\)  # (.*)$", block.text, re.MULTILINE)


def read(page: str, *languages: str) -> list[Block]:
    return blocks((ROOT / page).read_text("utf-8"), page, *languages)


SHELL = {page: read(page, "bash", "console", "sh", "shell") for page in PAGES}
PYTHON = [block for page in PAGES for block in read(page, "python")]


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """An empty working folder with ``contig`` on the path and no network; trainings draw no curve."""
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, NOWHERE)
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))  # commands too run from this source tree
    monkeypatch.setenv("CONTIG_CACHE", str(tmp_path / "cache"))
    if data := os.environ.get("CONTIG_DATA"):
        monkeypatch.setenv("CONTIG_DATA", str(Path(data).resolve()))  # it may be relative
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    quick_classifiers(monkeypatch)
    for registry in REGISTRIES:  # what a program registers ends with it
        monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    with fast_training():
        yield tmp_path


def test_every_page_has_something_to_run() -> None:
    for page in PAGES:
        assert SHELL[page] or [block for block in PYTHON if block.page == page]


@pytest.fixture
def short_collegemsg(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands, and programs that train, find the first events of collegemsg."""
    folder = offline / "data"
    folder.mkdir()
    pq.write_table(load_dataset("collegemsg")[:1500].to_arrow(), folder / "collegemsg.parquet")
    monkeypatch.setenv("CONTIG_DATA", str(folder))


def run_commands(new: list[str], folder: Path) -> str:
    """Run commands and return what they print; those of contig in this process, where they start at once."""
    ours = [command.startswith("contig ") for command in new]
    if any(SHELL_SYNTAX.search(command) for command, own in zip(new, ours, strict=True) if own):
        return run_in_shell("\n".join(new), folder)
    printed = ""
    for command, own in zip(new, ours, strict=True):
        if own:
            answer = Answer(*shlex.split(command)[1:])
            assert answer.code == 0, f"{command}\n{answer.out}\n{answer.err}"
            printed += answer.out
        else:
            printed += run_in_shell(command, folder)
    return printed


def run_in_shell(script: str, folder: Path) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.usefixtures("short_collegemsg")
def test_commands_run(offline: Path) -> None:
    """All blocks of all pages in order, in one folder; commands that an earlier block ran are skipped."""
    ran: set[str] = set()
    printed: set[str] = set()
    for block in [block for page in PAGES for block in SHELL[page]]:
        new = [c for c in commands(block) if make_targets(c) is None and c not in ran]
        ran.update(new)
        output = run_commands(new, offline)
        printed.update(" ".join(line.split()) for line in output.splitlines())
        assert [line for line in expected_lines(block) if line not in printed] == [], (str(block), output)


def test_make_commands_are_targets_of_the_makefile() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    every = [block for page in PAGES for block in SHELL[page]]
    used = [
        target for block in every for command in commands(block) for target in make_targets(command) or []
    ]
    assert used
    assert [target for target in used if target not in targets] == []


def test_the_makefile_uses_options_that_exist() -> None:
    """``make demo`` takes too long to be run here, and must not fail for a renamed option."""
    recipes = re.findall(r"\$\(BIN\)/contig (.+)", (ROOT / "Makefile").read_text())
    assert len(recipes) > 3
    for words in (recipe.split() for recipe in recipes):
        help = Answer(words[0], "--help").out
        assert [word for word in words if word.startswith("--") and word not in help] == []


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_programs_run(
    block: Block,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if "contig.fit(" in block.text:
        request.getfixturevalue("short_collegemsg")
    module = ModuleType("documentation")  # as if the program were a file of that name
    monkeypatch.setitem(sys.modules, "documentation", module)
    source = "\n" * (block.line - 1) + block.text  # so that a traceback names the line of the page
    exec(compile(source, str(ROOT / block.page), "exec", dont_inherit=True), vars(module))
    assert capsys.readouterr().out.splitlines() == expected_prints(block)


def test_entry_points_are_of_known_groups() -> None:
    (block,) = read("CONTRIBUTING.md", "toml")
    groups = tomllib.loads(block.text)["project"]["entry-points"]
    assert list(groups) == [registry.group for registry in REGISTRIES]
    programs = "".join(block.text for block in PYTHON if block.page == "CONTRIBUTING.md")
    for points in groups.values():
        for name, path in points.items():
            defined = path.partition(":")[2]
            assert re.search(rf"^(class |def |){defined}\b", programs, re.MULTILINE)
            assert f'"{name}"' in programs


def test_the_extras_are_in_one_table() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "install.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted(extras)


def test_recipes_can_be_trained(tmp_path: Path) -> None:
    (block,) = read("docs/guide.md", "json")
    (tmp_path / "recipe.json").write_text(block.text)
    recipes = read_recipes(tmp_path / "recipe.json")
    assert len(recipes) == 3
    for recipe in recipes:
        recipe.config(seed=0)  # refuses unknown options and wrong values


def test_the_layout_names_every_package() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    table = text[text.index("| package |") : text.index("`tests/` mirrors")]
    first_cells = re.findall(r"^\|([^|]*)\|", table, re.MULTILINE)
    named = [name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)]
    found = [path for path in (ROOT / "src" / "contig").iterdir() if not path.name.startswith("__")]
    modules = [path.stem for path in found if path.suffix == ".py" or (path / "__init__.py").exists()]
    assert sorted(named) == sorted(modules)


def test_files_that_are_named_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    named = re.findall(r"`([\w/]+/[\w/]*(?:\.py|\.json)?)`", text)
    assert "data/catalog.py" in named
    places = (
        ROOT,
        ROOT / "src" / "contig",
        ROOT / "src" / "contig" / "kernels",
        ROOT / "src" / "contig" / "models",
    )
    assert [name for name in named if not any((place / name).exists() for place in places)] == []


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        text = (ROOT / page).read_text("utf-8")
        targets = [t for t in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text) if "://" not in t]
        assert [t for t in targets if not ((ROOT / page).parent / t).exists()] == [], page


RESULTS = sorted((ROOT / "docs" / "results").rglob("*.md"))


@pytest.mark.parametrize("page", RESULTS, ids=lambda page: page.stem)
def test_results_refer_to_the_ledger_of_departures(page: Path) -> None:
    text = page.read_text("utf-8")
    targets = [t for t in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text) if "://" not in t]
    assert [t for t in targets if not (page.parent / t).exists()] == []
    without_models = page.stem in ("data", "departures")
    assert without_models or any(Path(t).name == "departures.md" for t in targets)


def test_blocks_are_read_as_they_are_written() -> None:
    console_part = "```console\n$ make demo x=1\n$ contig a \\\n    --b\nrow  one\n...\n```\n"
    markdown = "a\n" + console_part + "\n```python\nprint(1)  # 1\n```\n"
    console, program = blocks(markdown, "page", "console", "python")
    assert (console.line, program.line) == (3, 11)
    assert [" ".join(c.split()) for c in commands(console)] == ["make demo x=1", "contig a --b"]
    assert [make_targets(c) for c in commands(console)] == [["demo"], None]
    assert expected_lines(console) == ["row one"]
    assert expected_prints(program) == ["1"]
