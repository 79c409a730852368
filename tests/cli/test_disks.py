"""Disks that refuse to be written to, and folders that another process uses."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from support.commands import COLUMNS, Answer

from contig.cli import inspect as inspect_command
from contig.locks import locked

pytestmark = pytest.mark.usefixtures("here")


def test_an_evaluation_that_cannot_be_written_is_printed(
    run: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr("contig.files.write_json", full)
    answer = Answer("evaluate", run, "--out", "x.json", "--device", "cpu")
    assert answer.code == 2
    assert "transductive" in answer.out
    assert "x.json: No space left" in answer.err
    assert "wrote" not in answer.err


def test_a_summary_is_printed_before_the_figure_is_drawn(
    visits: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.figure import Figure

    def full(*given: object, **named: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Figure, "savefig", full)
    answer = Answer("inspect", visits, *COLUMNS, "--plot", here / "x.png")
    assert answer.code == 2
    assert "280" in answer.out
    assert f"{here / 'x.png'}: No space left on device; free some space" in answer.err
    assert list(here.iterdir()) == []


def test_any_refusal_of_the_system_is_named(visits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/etc/x")

    monkeypatch.setattr(inspect_command.data, "read_stream", refuse)
    answer = Answer("inspect", visits, *COLUMNS)
    assert answer.code == 2
    assert answer.err == "error: /etc/x: Permission denied; choose another path, or change its permissions.\n"


@pytest.mark.parametrize("command", ["train", "compare", "repeat"])
def test_a_folder_in_use_is_refused(command: str, visits: Path, here: Path) -> None:
    (here / "recipe.json").write_text('{"data": "synthetic:300", "model": "edgebank"}')
    target = [here / "recipe.json"] if command == "repeat" else [visits, *COLUMNS]
    with locked(here / "used"):
        (here / "used" / "mine").touch()
        answer = Answer(command, *target, "--out", here / "used")
        assert answer.code == 2
        assert f"{here / 'used'} is in use by process {os.getpid()} since" in answer.err
    assert [path.name for path in (here / "used").iterdir()] == ["mine"]
