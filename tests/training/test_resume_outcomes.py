"""Going on with a run: what an earlier end left, early stopping, how long an interrupted epoch took."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest
from support.trained import TINY, tiny_stream, without_costs

import contig.training.fit as fitting
from contig.errors import RunError
from contig.runs.run import Run
from contig.tasks.results import LinkMetrics, Selections
from contig.training import loop
from contig.training.fit import fit, resume


class Crash(Exception):
    pass


def crash_at_the_end(monkeypatch: pytest.MonkeyPatch, path: Path, **more: int) -> None:
    """Go on with a run that dies when its training is done and its results are not."""
    with monkeypatch.context() as patch:
        patch.setattr(loop, "_finish", lambda *_: (_ for _ in ()).throw(Crash))
        with pytest.raises(Crash):
            resume(path, device="cpu", show=False, **more)


def test_a_run_that_goes_on_is_unfinished_until_its_new_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old weights beside the new best epoch's state would answer, and wrongly."""
    fit(tiny_stream(), out=tmp_path / "run", device="cpu", show=False, epochs=1, **TINY)
    crash_at_the_end(monkeypatch, tmp_path / "run", epochs=3)
    early = Run.open(tmp_path / "run")
    with pytest.raises(RunError, match="contig resume"):
        _ = early.metrics
    run = resume(tmp_path / "run", device="cpu", show=False)
    assert run.evaluate().result.transductive == run.metrics.transductive
    assert early.evaluate() == run.evaluate()  # all epochs were done, so that the best one is the best


def test_an_interrupted_run_answers_from_its_best_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As the run does that ended with that epoch."""
    step = fitting.Session.train_step

    def crashing(self: fitting.Session) -> object:
        if self.progress.epoch == 1 and self.progress.step == 3:
            raise Crash
        return step(self)

    with monkeypatch.context() as patch:
        patch.setattr(fitting.Session, "train_step", crashing)
        with pytest.raises(Crash):
            fit(tiny_stream(), out=tmp_path / "run", device="cpu", show=False, epochs=3, **TINY)
    short = fit(tiny_stream(), out=tmp_path / "short", device="cpu", show=False, epochs=1, **TINY)
    caplog.clear()
    run = Run.open(tmp_path / "run", "cpu")
    assert "answers come from its best epoch so far, epoch 1. To continue: contig resume" in caplog.text
    assert repr(run).endswith("tiny, 400 events, 32 nodes, unfinished)")
    assert np.array_equal(run.embed(), short.embed())
    assert run.recommend(3) == short.recommend(3)
    assert run.evaluate() == short.evaluate()
    caplog.clear()
    Run.open(tmp_path / "short")
    assert caplog.text == ""


def test_a_finished_run_is_said_to_be_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    out = tmp_path / "run"
    fit(tiny_stream(), out=out, device="cpu", show=False, epochs=2, **TINY)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    metrics = resume(out, device="cpu", show=False).metrics
    best = metrics.best_epoch
    assert f"{out} is finished after 2 epochs (the limit); the best was epoch {best}." in caplog.text
    assert f"To train longer: contig resume {out} --epochs 4" in caplog.text
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    caplog.clear()
    assert len(resume(out, device="cpu", show=False, epochs=4).metrics.epochs) == 4
    assert "is finished" not in caplog.text


def test_why_a_run_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fit(tiny_stream(), "edgebank", out=tmp_path / "rule", show=False)
    resume(tmp_path / "rule", show=False)
    assert "rule is finished: edgebank has nothing to train." in caplog.text
    monkeypatch.setattr(loop, "link_report", lambda *_, **__: _flat_report())
    fit(tiny_stream(), out=tmp_path / "run", device="cpu", show=False, epochs=9, patience=2, **TINY)
    resume(tmp_path / "run", device="cpu", show=False)
    assert (
        "finished after 3 epochs (no better validation AP for 2 epochs); the best was epoch 1" in caplog.text
    )


def test_what_an_end_did_not_leave_is_made_again(tmp_path: Path) -> None:
    run = fit(tiny_stream(), out=tmp_path / "run", device="cpu", show=False, epochs=1, **TINY)
    before = run.metrics.as_dict()
    for name in ("metrics.json", "serving.pt"):
        (tmp_path / "run" / name).unlink()
        assert without_costs(
            resume(tmp_path / "run", device="cpu", show=False).metrics.as_dict()
        ) == without_costs(before)
        assert np.array_equal(Run.open(tmp_path / "run").embed(), run.embed())


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
    monkeypatch.setattr(loop, "link_report", lambda *_, **__: _flat_report())
    run = fit(tiny_stream(), out=tmp_path / "run", device="cpu", show=False, epochs=9, patience=2, **TINY)
    assert len(run.metrics.epochs) == 3
    assert len(resume(tmp_path / "run", device="cpu", show=False).metrics.epochs) == 3
    longer = resume(tmp_path / "run", device="cpu", show=False, epochs=20)
    assert len(longer.metrics.epochs) == 5
    assert longer.metrics.best_epoch == 1


def _flat_report() -> Selections[LinkMetrics]:
    """Every epoch is as good as every other."""
    same = LinkMetrics(ap=0.5, auc=0.5, ap_overall=0.5, auc_overall=0.5, events=9)
    return Selections(transductive=same, inductive=same, old_old=same, new_old=same, new_new=same)
