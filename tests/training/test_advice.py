from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.trained import TINY, tiny_stream

from contig.data.events import EventStream
from contig.runs.config import RunConfig
from contig.training import fit as fitting
from contig.training import loop
from contig.training.advice import after_training, baseline_ap, before_training
from contig.training.fit import fit
from contig.training.preparation import prepare
from contig.training.session import Session


def session(stream: EventStream, **settings: Any) -> Session:
    config = RunConfig.of("contig", {**TINY, **settings})
    return Session(prepare(stream, config, torch.device("cpu")), config)


def long_stream(events: int) -> EventStream:
    rng = np.random.default_rng(5)
    src, dst = rng.integers(0, 30, events), rng.integers(30, 50, events)
    return EventStream.from_arrays(src, dst, np.arange(events), origin="long")


def test_what_is_hidden_is_counted(stream: EventStream) -> None:
    one = session(stream)
    new, first_val = one.data.split.new_nodes, int(one.data.split.val[0])
    hidden = sum(bool(new[stream.src[i]] or new[stream.dst[i]]) for i in range(first_val))
    assert 0 < hidden < first_val
    told = next(iter(before_training(one)))
    assert told.startswith(f"holdout=tgn hides {hidden} of {first_val} training events")
    assert not any("hides" in line for line in before_training(session(stream, holdout="paper")))


@pytest.mark.parametrize(
    ("events", "size", "told"),
    [
        (1000, 200, "only 4 steps (700 training events in batches of 200); on a stream this short try 10"),
        (1000, 20, "only 35 steps (700 training events in batches of 20); on a stream this short try 10"),
        (100, 30, "only 3 steps (70 training events in batches of 30); on a stream this short try 5"),
        (1000, 14, None),  # 50 steps
        (100, 5, None),  # 14 steps, but smaller batches are no better
    ],
)
def test_few_steps(events: int, size: int, told: str | None) -> None:
    lines = list(before_training(session(long_stream(events), batch_size=size, holdout="paper")))
    assert [line.replace("batch_size=", "") for line in lines] == ([f"an epoch has {told}"] if told else [])


def test_the_baseline_is_the_heuristic_itself(stream: EventStream, tmp_path: Path) -> None:
    for holdout in ("tgn", "paper"):
        run = fit(stream, "edgebank", out=tmp_path / holdout, show=False, batch_size=30, holdout=holdout)
        one = session(stream, holdout=holdout)
        assert baseline_ap(one) == run.metrics.epochs[0].val_ap
        one.progress.best_ap = baseline_ap(one)
        assert list(after_training(one)) == []
        one.progress.best_ap -= 0.01
        (told,) = after_training(one)
        reached, learned = (f"{100 * ap:.2f}" for ap in (baseline_ap(one), one.progress.best_ap))
        assert f"the heuristic edgebank reaches a validation AP of {reached}, contig only {learned}" in told
        assert "batch_size=5" in told


def test_advice_is_given_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "contig")
    monkeypatch.setattr(fitting, "before_training", lambda _: ["early advice"])
    monkeypatch.setattr(loop, "after_training", lambda _: ["late advice"])
    fit(tiny_stream(), out=tmp_path / "run", epochs=1, **TINY)
    first, epoch, last = (record.getMessage() for record in caplog.records)
    assert (first, last) == ("early advice", "late advice")
    assert epoch.startswith("epoch   1  loss")
    caplog.clear()
    fit(tiny_stream(), "edgebank", out=tmp_path / "holdout")
    fit(tiny_stream(), out=tmp_path / "silent", epochs=1, show=False, **TINY)
    assert caplog.records == []
