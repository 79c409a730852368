"""Replacing a run: whoever opens its folder finds the old run or the new one, also after a kill."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.commands import Answer
from support.processes import fork, join

from contig.data.events import EventStream
from contig.errors import ConfigError, DataError, RunError
from contig.runs import exchange, replacement
from contig.runs.replacement import draft_folder, replaced
from contig.runs.run import Run
from contig.training import refit as refitting
from contig.training.fit import fit


@pytest.fixture(scope="module")
def successor(stream: EventStream, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fit(stream, "popularity", out=tmp_path_factory.mktemp("runs") / "successor", show=False).path


@pytest.fixture
def old(run: Run, tmp_path: Path) -> Path:
    folder = Path(shutil.copytree(run.path, tmp_path / "run"))
    (folder / "lists").mkdir()
    (folder / "lists" / "mine.csv").write_text("kept")
    (folder / ".notes").write_text("kept")
    return folder


def replace_by(successor: Path, path: Path) -> None:
    with replaced(Run.open(path).folder) as draft:
        shutil.copytree(successor, draft.path, dirs_exist_ok=True)


def dies(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dies_at_call(number: int, function: Callable[..., Any]) -> Callable[..., Any]:
    calls = iter(range(number + 1))

    def called(*arguments: Any) -> Any:
        if next(calls) == number:
            dies()
        return function(*arguments)

    return called


def nothing_is_left(folder: Path) -> bool:
    return not [path for path in folder.parent.iterdir() if path.name.startswith(".")]


def without_exchange(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(exchange, "_exchanged", lambda *_: False)


@pytest.mark.parametrize("in_one_step", [True, False])
def test_the_new_run_has_the_place_and_other_files_stay(
    in_one_step: bool, old: Path, successor: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not in_one_step:
        without_exchange(monkeypatch)
    replace_by(successor, old)
    assert Run.open(old).config.model == "popularity"
    assert (old / "lists" / "mine.csv").read_text() == (old / ".notes").read_text() == "kept"
    assert nothing_is_left(old)
    assert not (old / ".lock").exists()
    with Run.open(old).folder.locked():  # nobody holds a lock any more
        pass


KILLS: dict[str, tuple[str | None, Callable[[pytest.MonkeyPatch], None]]] = {
    "training": ("contig", lambda patch: patch.setattr(replacement, "_link_other_files", dies)),
    "before": ("contig", lambda patch: patch.setattr(replacement, "exchange", dies)),
    "after": ("popularity", lambda patch: patch.setattr(exchange, "sync", dies)),
}


@pytest.mark.parametrize("moment", KILLS)
def test_a_kill_leaves_the_old_run_or_the_new_one(moment: str, old: Path, successor: Path) -> None:
    expected, arrange = KILLS[moment]

    def use() -> int:
        with pytest.MonkeyPatch.context() as patch:
            arrange(patch)
            replace_by(successor, old)
        return 0

    assert join(fork(use)) == -signal.SIGKILL
    assert Run.open(old).config.model == expected
    replace_by(successor, old)  # whatever is left is removed
    assert Run.open(old).config.model == "popularity"
    assert nothing_is_left(old)


@pytest.mark.parametrize("renames", [0, 1, 2])
def test_a_kill_between_two_renames_is_repaired(renames: int, old: Path, successor: Path) -> None:
    """On systems that cannot exchange two folders there is a moment without one."""

    def use() -> int:
        with pytest.MonkeyPatch.context() as patch:
            without_exchange(patch)
            patch.setattr(Path, "rename", dies_at_call(renames, Path.rename))
            replace_by(successor, old)
        return 0

    assert join(fork(use)) == -signal.SIGKILL
    assert old.exists() == (renames != 1)
    assert Run.open(old).config.model == ("popularity" if renames == 2 else "contig")
    replace_by(successor, old)
    assert nothing_is_left(old)


def test_a_run_that_is_replaced_while_it_is_opened_is_opened_again(
    old: Path, successor: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, replacements = Run._open, []

    def open_slowly(*arguments: Any) -> Run:
        run = opened(*arguments)
        if not replacements:
            replacements.append(run)
            with replaced(run.folder) as draft:
                shutil.copytree(successor, draft.path, dirs_exist_ok=True)
        return run

    monkeypatch.setattr(Run, "_open", open_slowly)
    assert Run.open(old).config.model == "popularity"


def test_a_run_is_refitted_in_place(old: Path, stream: EventStream) -> None:
    run = Run.open(old)
    labels, last = stream.ids.labels, int(stream.t[-1])
    later = {"src": labels[stream.src[:9]], "dst": labels[stream.dst[:9]], "t": last + 1 + stream.t[:9]}
    new = run.refit(later, in_place=True, show=False)
    assert (new.path, len(new.trained_stream)) == (old, len(stream) + 9)
    assert new.config.train.final
    assert nothing_is_left(old)
    with pytest.raises(RunError, match="open the run again"):
        run.observe({name: column[:1] for name, column in later.items()})
    assert len(run.embed()) == stream.num_nodes  # it still answers
    beside = new.refit(out=old.with_name("beside"), show=False, epochs=1)
    assert beside.path.name == "beside"
    assert Run.open(old).served_version == new.served_version


def test_a_failed_refit_leaves_the_old_run(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path: path.read_bytes() for path in old.rglob("*") if path.is_file()}

    def disk_full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(refitting, "start", disk_full)
    answer = Answer("refit", old, "--on", "everything", "--in-place")
    assert "No space left on device; free some space" in " ".join(answer.refusal.split())
    assert {path: path.read_bytes() for path in old.rglob("*") if path.is_file()} == before
    assert nothing_is_left(old)
    with pytest.raises(ConfigError, match="not both"):
        Run.open(old).refit(out="x", in_place=True)
    with pytest.raises(DataError, match="no such file"):
        Run.open(old).refit(old / "nowhere.csv", in_place=True)


def test_a_draft_is_hidden_next_to_its_run(tmp_path: Path) -> None:
    assert draft_folder(tmp_path / "first") == tmp_path / ".first.refit"
