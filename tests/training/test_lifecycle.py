"""Unfinished, finished and extended runs: what they answer, report and measure."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.trained import train_tiny, without_costs

from contig.data.events import EventStream
from contig.errors import RunError
from contig.runs.run import Run
from contig.tasks.results import LinkMetrics, Selections
from contig.training import loop, validation
from contig.training.fit import fit, resume
from contig.training.session import Session


class Crash(Exception):
    pass


@pytest.fixture
def flat_validation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every epoch have the same validation AP."""
    every = LinkMetrics(ap=0.5, auc=0.5, ap_overall=0.5, auc_overall=0.5, events=9)
    report = Selections(transductive=every, inductive=every, old_old=every, new_old=every, new_new=every)
    monkeypatch.setattr(validation, "link_report", lambda *_, **__: report)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# -- unfinished runs ---------------------------------------------------------------------------------------


def test_an_extended_run_is_unfinished_until_its_new_end(
    stream: EventStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its old results would be those of other weights."""
    train_tiny(stream, tmp_path / "run")

    def crash(*_: Any) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(loop, "_finish", crash)
        with pytest.raises(Crash):
            resume(tmp_path / "run", device="cpu", show=False, epochs=3)
    early = Run.open(tmp_path / "run")
    with pytest.raises(RunError, match="contig resume"):
        _ = early.metrics
    run = resume(tmp_path / "run", device="cpu", show=False)
    assert run.evaluate().result == run.metrics.result
    assert early.evaluate() == run.evaluate()  # every epoch had finished, so both have the best one


def test_an_interrupted_run_answers_from_its_best_epoch(
    stream: EventStream,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Exactly as a run that ended with that epoch."""
    step = Session.train_step

    def crashing(self: Session) -> object:
        if self.progress.epoch == 1 and self.progress.step == 3:
            raise Crash
        return step(self)

    with monkeypatch.context() as patch:
        patch.setattr(Session, "train_step", crashing)
        with pytest.raises(Crash):
            train_tiny(stream, tmp_path / "run", epochs=3)
    short = train_tiny(stream, tmp_path / "short")
    caplog.clear()
    run = Run.open(tmp_path / "run", "cpu")
    assert "best epoch so far, epoch 1" in caplog.text
    assert f"contig resume {tmp_path / 'run'}" in caplog.text
    assert repr(run).endswith("tiny, 400 events, 32 nodes, unfinished)")
    assert np.array_equal(run.embed(), short.embed())
    assert run.recommend(3) == short.recommend(3)
    assert run.evaluate() == short.evaluate()
    caplog.clear()
    Run.open(tmp_path / "short")
    assert caplog.text == ""


def test_an_interrupted_epoch_is_timed_as_a_whole(
    stream: EventStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that ticks once per step: six steps before the crash and two after it."""
    ticks = 0
    monkeypatch.setattr(time, "perf_counter", lambda: float(ticks))
    step = Session.train_step

    def ticking(self: Session) -> object:
        nonlocal ticks
        ticks += 1
        if ticks == 7:
            raise Crash
        return step(self)

    monkeypatch.setattr(Session, "train_step", ticking)
    with pytest.raises(Crash):
        train_tiny(stream, tmp_path / "run", checkpoint_seconds=0)
    run = resume(tmp_path / "run", device="cpu", show=False)
    assert [epoch.train_seconds for epoch in run.metrics.epochs] == [8]


# -- finished runs -----------------------------------------------------------------------------------------


def test_resuming_a_finished_run_changes_nothing(
    stream: EventStream, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    out = tmp_path / "run"
    train_tiny(stream, out, epochs=2)
    before = contents(out)
    best = resume(out, device="cpu", show=False).metrics.best_epoch
    assert f"{out} is finished after 2 epochs (the limit); the best was epoch {best}." in caplog.text
    assert f"To train longer: contig resume {out} --epochs 4" in caplog.text
    assert contents(out) == before
    caplog.clear()
    assert len(resume(out, device="cpu", show=False, epochs=4).metrics.epochs) == 4
    assert "is finished" not in caplog.text


def test_a_heuristic_is_finished_at_once(
    stream: EventStream, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fit(stream, "edgebank", out=tmp_path / "run", show=False)
    resume(tmp_path / "run", show=False)
    assert "run is finished: edgebank has nothing to train." in caplog.text


def test_missing_results_of_a_finished_run_are_written_again(stream: EventStream, tmp_path: Path) -> None:
    run = train_tiny(stream, tmp_path / "run")
    expected = without_costs(run.metrics.as_dict())
    for name in ("metrics.json", "serving.pt"):
        (tmp_path / "run" / name).unlink()
        resumed = resume(tmp_path / "run", device="cpu", show=False)
        assert without_costs(resumed.metrics.as_dict()) == expected
        assert np.array_equal(Run.open(tmp_path / "run").embed(), run.embed())


@pytest.mark.usefixtures("flat_validation")
def test_early_stopping_and_training_longer(
    stream: EventStream, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With more epochs a run that had run out of patience trains until it runs out again."""
    out = tmp_path / "run"
    assert len(train_tiny(stream, out, epochs=9, patience=2).metrics.epochs) == 3
    assert len(resume(out, device="cpu", show=False).metrics.epochs) == 3
    reason = "(no better validation AP for 2 epochs); the best was epoch 1"
    assert f"finished after 3 epochs {reason}" in caplog.text
    longer = resume(out, device="cpu", show=False, epochs=20)
    assert len(longer.metrics.epochs) == 5
    assert longer.metrics.best_epoch == 1
