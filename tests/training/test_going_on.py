"""Going on with a run: what an earlier end left, early stopping, how long an interrupted epoch took."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from trained import TINY, tiny_stream

import contig.training.fit as fitting
from contig.errors import RunError
from contig.training.fit import fit, resume
from contig.training.run import Run


class Crash(Exception):
    pass


def crash_at_the_end(monkeypatch: pytest.MonkeyPatch, path: Path, **more: int) -> None:
    """Go on with a run that dies when its training is done and its results are not."""
    with monkeypatch.context() as patch:
        patch.setattr(fitting, "_finish", lambda *_: (_ for _ in ()).throw(Crash))
        with pytest.raises(Crash):
            resume(path, device="cpu", show=False, **more)


def test_a_run_that_goes_on_is_unfinished_until_its_new_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old weights beside the new best epoch's state would answer, and wrongly."""
    fit(tiny_stream(), out=tmp_path / "run", device="cpu", show=False, epochs=1, **TINY)
    crash_at_the_end(monkeypatch, tmp_path / "run", epochs=3)
    assert not (tmp_path / "run" / "metrics.json").exists()
    with pytest.raises(RunError, match="contig resume"):
        Run.open(tmp_path / "run")
    run = resume(tmp_path / "run", device="cpu", show=False)
    assert run.evaluate()["transductive"] == run.metrics["transductive"]


def test_a_finished_run_stays_finished_while_it_is_tested_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit(tiny_stream(), out=tmp_path / "run", device="cpu", show=False, epochs=1, **TINY)
    crash_at_the_end(monkeypatch, tmp_path / "run")
    assert Run.open(tmp_path / "run").metrics["best_epoch"] == 0


def test_an_interrupted_epoch_took_as_long_as_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that ticks with every step, the six before the crash count as well as the two after."""
    steps = 0
    monkeypatch.setattr(time, "perf_counter", lambda: float(steps))
    train_step = fitting.Session.train_step

    def counted(self: fitting.Session) -> object:
        nonlocal steps
        steps += 1
        if steps == 7:
            raise Crash
        return train_step(self)

    monkeypatch.setattr(fitting.Session, "train_step", counted)
    settings = {**TINY, "epochs": 1, "checkpoint_seconds": 0}
    with pytest.raises(Crash):
        fit(tiny_stream(), out=tmp_path / "run", device="cpu", show=False, **settings)
    resume(tmp_path / "run", device="cpu", show=False)
    [row] = json.loads((tmp_path / "run" / "metrics.json").read_text())["epochs"]
    assert row["train_seconds"] == 8


def test_going_on_after_early_stopping_waits_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for more epochs, a run that had lost its patience trains on until it loses it again."""
    monkeypatch.setattr(fitting, "link_report", lambda *_: _flat_report())
    run = fit(tiny_stream(), out=tmp_path / "run", device="cpu", show=False, epochs=9, patience=2, **TINY)
    assert len(run.metrics["epochs"]) == 3
    assert len(resume(tmp_path / "run", device="cpu", show=False).metrics["epochs"]) == 3
    longer = resume(tmp_path / "run", device="cpu", show=False, epochs=20)
    assert len(longer.metrics["epochs"]) == 5
    assert longer.metrics["best_epoch"] == 0


def _flat_report() -> dict[str, dict[str, float]]:
    """Every epoch is as good as every other."""
    names = ("transductive", "inductive", "old_old", "new_old", "new_new")
    return {
        name: {"ap": 0.5, "auc": 0.5, "ap_overall": 0.5, "auc_overall": 0.5, "events": 9} for name in names
    }
