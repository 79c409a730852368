"""The README's commands and programs run as they stand, without a network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
NOWHERE = "http://127.0.0.1:9"  # the discard port: a download fails at once instead of being made
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    language: str
    line: int  # of its first line in the README
    text: str

    def __str__(self) -> str:
        return f"{self.language}-line{self.line}"


def blocks(markdown: str, *languages: str) -> list[Block]:
    found = [Block(m[1], markdown.count("\n", 0, m.start(2)) + 1, m[2]) for m in FENCE.finditer(markdown)]
    return [block for block in found if block.language in languages]


def commands(block: Block) -> list[str]:
    """The commands of a block: all lines of ``bash``, those after a ``$`` of ``console``."""
    lines = block.text.replace("\\\n", " ").splitlines()
    if block.language == "console":
        return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return [line for line in lines if line.strip() and not line.startswith("#")]


def make_targets(command: str) -> list[str] | None:
    """The targets that a ``make`` command names; None for any other command."""
    words = command.split("#")[0].split()
    return [w for w in words[1:] if "=" not in w] if "make" in words[:1] else None


def shown(block: Block) -> list[str]:
    """The lines of output that a ``console`` block shows, apart from ``...`` for what is left out."""
    if block.language != "console":
        return []
    lines = block.text.replace("\\\n", " ").splitlines()
    return [
        x for line in lines if not line.startswith("$ ") and (x := " ".join(line.split())) not in ("", "...")
    ]


def promised(block: Block) -> list[str]:
    """What a ``python`` block says its prints print: ``print(...)  # this``."""
    return re.findall(r"^\s*print\(.*\)  # (.*)$", block.text, re.MULTILINE)


README = (ROOT / "README.md").read_text("utf-8")
SHELL = blocks(README, "bash", "console", "sh", "shell")
PYTHON = blocks(README, "python")


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty working folder where the environment's ``contig`` is on the path and the network is not."""
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, NOWHERE)
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    monkeypatch.setenv("CONTIG_CACHE", str(tmp_path / "cache"))
    if data := os.environ.get("CONTIG_DATA"):
        monkeypatch.setenv("CONTIG_DATA", str(Path(data).resolve()))  # it may be relative to where we were
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_readme_has_something_to_run() -> None:
    assert any(make_targets(c) is None for block in SHELL for c in commands(block))
    assert PYTHON


@pytest.mark.parametrize("block", SHELL, ids=str)
def test_commands_run(block: Block, offline: Path) -> None:
    script = "\n".join(c for c in commands(block) if make_targets(c) is None)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=offline,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, f"README.md line {block.line}:\n{script}\n{done.stdout}\n{done.stderr}"
    printed = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert [line for line in shown(block) if line not in printed] == [], done.stdout


@pytest.mark.parametrize("block", SHELL, ids=str)
def test_make_commands_are_targets_of_the_makefile(block: Block) -> None:
    rules = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    named = [target for command in commands(block) for target in make_targets(command) or []]
    assert [target for target in named if target not in rules] == []


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_programs_run(block: Block, offline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = "\n" * (block.line - 1) + block.text  # so that a traceback names the README's line
    exec(compile(source, str(ROOT / "README.md"), "exec"), {"__name__": "readme"})
    assert capsys.readouterr().out.splitlines() == promised(block)


def test_blocks_are_read_as_they_are_written() -> None:
    console_part = "```console\n$ make demo x=1\n$ contig a \\\n    --b\nrow  one\n...\n```\n"
    markdown = "a\n" + console_part + "\n```python\nprint(1)  # 1\n```\n"
    console, program = blocks(markdown, "console", "python")
    assert (console.line, program.line) == (3, 11)
    assert [" ".join(c.split()) for c in commands(console)] == ["make demo x=1", "contig a --b"]
    assert [make_targets(c) for c in commands(console)] == [["demo"], None]
    assert shown(console) == ["row one"]
    assert promised(program) == ["1"]
