"""Hints before and after a training."""

from __future__ import annotations

import logging
from dataclasses import replace
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
from contig.training.advice import after_training, baseline_ap, before_training, on_repeated_rows
from contig.training.fit import fit
from contig.training.preparation import prepare
from contig.training.session import Session


def new_session(stream: EventStream, **settings: Any) -> Session:
    config = RunConfig.of("contig", {**TINY, **settings})
    return Session(prepare(stream, config, torch.device("cpu")), config)


def long_stream(events: int) -> EventStream:
    rng = np.random.default_rng(5)
    src, dst = rng.integers(0, 30, events), rng.integers(30, 50, events)
    return EventStream.from_arrays(src, dst, np.arange(events), origin="long")


def test_the_hidden_events_are_counted(stream: EventStream) -> None:
    session = new_session(stream)
    new, first_val = session.data.split.new_nodes, int(session.data.split.val[0])
    hidden = sum(bool(new[stream.src[i]] or new[stream.dst[i]]) for i in range(first_val))
    assert 0 < hidden < first_val
    parts = (
        f"training on {first_val - hidden} events, validation on 64, test on 48 (70/15/15 by time quantile)"
    )
    hint = next(iter(before_training(session)))
    assert hint.startswith(f"{parts}; holdout=tgn hides {hidden} of {first_val} training events")
    for holdout in ("paper", "none"):
        hint, *others = before_training(new_session(stream, holdout=holdout))
        assert hint.endswith("no node is hidden from training")
        assert not any("hides" in line for line in others)


def test_a_final_training_holds_nothing_back(stream: EventStream) -> None:
    session = new_session(stream, final=True, epochs=1)
    assert next(iter(before_training(session))) == (
        "training on all 400 events; none is held back for validation and test"
    )
    assert list(after_training(session)) == []


@pytest.mark.parametrize(
    ("events", "size", "hint"),
    [
        (1000, 200, "only 4 steps (700 training events in batches of 200); on a stream this short try 10"),
        (1000, 20, "only 35 steps (700 training events in batches of 20); on a stream this short try 10"),
        (100, 30, "only 3 steps (70 training events in batches of 30); on a stream this short try 5"),
        (1000, 14, None),  # 50 steps
        (100, 5, None),  # 14 steps, but no smaller batch size is recommended
    ],
)
def test_an_epoch_of_few_steps(events: int, size: int, hint: str | None) -> None:
    lines = list(before_training(new_session(long_stream(events), batch_size=size)))[1:]
    words = [
        line.partition(" (contig train --set batch_size=")[0].replace("batch_size=", "") for line in lines
    ]
    assert words == ([f"an epoch has {hint}"] if hint else [])
    assert all(
        line.endswith(f" (contig train --set batch_size={hint.split()[-1]})") for line in lines if hint
    )


def test_nodes_without_intervals_are_reported() -> None:
    """Every node has one event, or several at one time: the unit of time comes from the whole stream."""
    once = EventStream.from_arrays(np.arange(80), 100 + np.arange(80), np.arange(80) // 2, origin="once")
    said = [line for line in before_training(new_session(once, batch_size=5)) if "different times" in line]
    assert len(said) == 1
    assert not any("different times" in line for line in before_training(new_session(long_stream(200))))


@pytest.mark.parametrize(
    ("labels", "hint"),
    [
        ([0, 1, -1], None),
        ([0, 2, 1], "the labels have the value 2; contig classify needs 1 for the positive class"),
        ([1, 1, -1], "the training events have only the label 1: contig classify needs some with 0 and some"),
        ([-1, -1, -1], "the training events have no label: contig classify needs"),
    ],
)
def test_labels_that_cannot_be_learned_are_reported(labels: list[int], hint: str | None) -> None:
    labeled = replace(long_stream(300), label=np.resize(labels, 300))
    lines = [line for line in before_training(new_session(labeled, batch_size=5)) if "label" in line]
    assert [line.startswith(hint or "none") for line in lines] == ([True] if hint else [])


def test_labels_missing_in_validation_are_reported(tmp_path: Path) -> None:
    early = np.arange(300) < 100
    labeled = replace(long_stream(300), label=early.astype(np.int64))
    (line,) = [one for one in before_training(new_session(labeled, batch_size=5)) if "label" in one]
    assert line.startswith("the validation events have only the label 0")
    np.save(tmp_path / "label.npy", labeled.label)
    mapped = replace(labeled, label=np.load(tmp_path / "label.npy", mmap_mode="r"))
    assert not any("label" in one for one in before_training(new_session(mapped, batch_size=5)))


def repeating(times: int, events: int = 300) -> EventStream:
    """A stream of which some events, apart from each other, are there twice."""
    stream = long_stream(events - times)
    rows = np.sort(np.concatenate([np.arange(len(stream)), 3 * np.arange(times)]))
    labels = stream.ids.labels
    return EventStream.from_arrays(
        labels[stream.src[rows]], labels[stream.dst[rows]], stream.t[rows], origin="export.csv"
    )


@pytest.mark.parametrize(
    ("times", "counts"), [(0, None), (3, None), (4, "4 of 300 events (1.3%) repeat the source, destination")]
)
def test_more_than_a_hundredth_of_repeated_rows(times: int, counts: str | None) -> None:
    hints = list(on_repeated_rows(repeating(times)))
    assert [hint.startswith(f"export.csv: {counts}") for hint in hints] == [True] * (counts is not None)
    assert all("drop_duplicates([...])" in hint and "unique([...], maintain" in hint for hint in hints)
    assert list(on_repeated_rows(replace(repeating(times), benchmark=True))) == []


def test_a_single_repeated_row_of_a_short_stream() -> None:
    (hint,) = on_repeated_rows(EventStream.from_arrays([1, 1, 2], [7, 7, 7], [5, 5, 6]))
    assert hint.startswith("arrays: 1 of 3 events (33.3%) repeats the source")


def test_repeated_rows_are_reported_once_and_change_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "contig")
    run = fit(repeating(9), "popularity", out=tmp_path / "run")
    told = [record.getMessage() for record in caplog.records if "of an earlier one" in record.getMessage()]
    assert len(told) == 1
    assert [notice for notice in run.notices if "of an earlier one" in notice] == told
    assert run.stream.equals(repeating(9))
    caplog.clear()
    run.refit(out=tmp_path / "again")
    assert "of an earlier one" not in caplog.text


def test_the_baseline_has_the_ap_of_its_own_run(stream: EventStream, tmp_path: Path) -> None:
    for holdout in ("tgn", "paper"):
        run = fit(stream, "edgebank", out=tmp_path / holdout, show=False, batch_size=30, holdout=holdout)
        session = new_session(stream, holdout=holdout)
        assert baseline_ap(session) == run.metrics.epochs[0].val_ap
        (row,) = run.metrics.epochs
        session.progress.log, session.progress.best_epoch = [row], 1
        assert list(after_training(session)) == []
        session.progress.log = [replace(row, val_ap=row.val_ap - 0.01)]
        (hint,) = after_training(session)
        reached, learned = (f"{100 * ap:.2f}" for ap in (row.val_ap, row.val_ap - 0.01))
        assert f"the heuristic edgebank reaches a validation AP of {reached}, contig only {learned}" in hint
        assert "batch_size=5" in hint


def test_hints_come_before_and_after_the_epochs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "contig")
    monkeypatch.setattr(fitting, "before_training", lambda _: ["early hint"])
    monkeypatch.setattr(loop, "after_training", lambda _: ["late hint"])
    fit(tiny_stream(), out=tmp_path / "run", epochs=1, **TINY)
    first, epoch, last = (record.getMessage() for record in caplog.records)
    assert (first, last) == ("early hint", "late hint")
    assert epoch.startswith("epoch   1  loss")
    caplog.clear()
    fit(tiny_stream(), "edgebank", out=tmp_path / "heuristic")
    assert [record.message for record in caplog.records] == ["early hint"]
    caplog.clear()
    fit(tiny_stream(), out=tmp_path / "silent", epochs=1, show=False, **TINY)
    assert caplog.records == []
