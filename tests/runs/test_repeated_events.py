"""Events that a run already knows: refused with their number, skipped, or added again."""

from __future__ import annotations

import logging
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from support.commands import Answer
from support.trained import tiny_stream

from contig.data.events import EventStream
from contig.errors import ConfigError, DataError, RunError
from contig.runs.arrivals import Arrivals, NewEvents
from contig.runs.repeated_events import known_positions
from contig.runs.run import Run
from contig.training.fit import fit

TRAINED, KNOWN = 300, 340
ONE = torch.ones(1, dtype=torch.int64)


def rows_of(stream: EventStream, rows: np.ndarray) -> EventStream:
    """Some events as a stream with nodes of its own."""
    labels = stream.ids.labels
    return EventStream.from_arrays(
        labels[stream.src][rows],
        labels[stream.dst][rows],
        stream.t[rows],
        label=stream.label[rows],
        edge_features=stream.edge_features[rows],
        bipartite=True,
        origin="rows",
    )


@pytest.fixture(scope="module")
def whole() -> EventStream:
    stream = tiny_stream(edge_features=2)
    rows = np.arange(len(stream))
    labels = stream.ids.labels
    return EventStream.from_arrays(
        labels[stream.src],
        labels[stream.dst],
        stream.t,
        label=rows % 2,
        edge_features=stream.edge_features,
        bipartite=True,
    )


@pytest.fixture(scope="module")
def trained(whole: EventStream, tmp_path_factory: pytest.TempPathFactory) -> Run:
    out = tmp_path_factory.mktemp("repeated") / "run"
    first = rows_of(whole, np.arange(TRAINED))
    run = fit(first, "tgn", out=out, show=False, epochs=1, batch_size=30, dim=8, time_dim=6)
    run.observe(rows_of(whole, np.arange(TRAINED, KNOWN)))
    return run


@pytest.fixture
def run(trained: Run, tmp_path: Path) -> Run:
    return Run.open(shutil.copytree(trained.path, tmp_path / "copy"))


def shuffled(rows: np.ndarray) -> np.ndarray:
    return np.random.default_rng(4).permutation(rows)


@pytest.mark.parametrize("order", [np.asarray, shuffled])
def test_skipping_known_events_adds_exactly_the_others(
    order, run: Run, trained: Run, whole: EventStream, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As if the file had only the others: the same answers, events and labels."""
    rows = order(np.arange(280, 390))
    expected = Run.open(shutil.copytree(trained.path, tmp_path / "expected"))
    expected.observe(rows_of(whole, rows[rows >= KNOWN]))
    with caplog.at_level(logging.INFO, "contig"):
        added = run.observe(rows_of(whole, rows), repeated="skip")
    assert added == 50
    assert "Skipped 60 events that the run already knows" in caplog.text
    for one in (run, Run.open(run.path)):
        src, dst = whole.ids.labels[whole.src[:90]], whole.ids.labels[whole.dst[5:95]]
        np.testing.assert_allclose(one.score(src, dst).score, expected.score(src, dst).score, atol=1e-5)
        for column in ("src", "dst", "t", "label", "edge_features"):
            mine, its = getattr(one.labeled_stream, column), getattr(expected.labeled_stream, column)
            np.testing.assert_array_equal(mine, its)
    assert run.observe(rows_of(whole, np.arange(0, 390)), repeated="skip") == 0
    assert run.observe(rows_of(whole, np.arange(390, 400)), repeated="skip") == 10


def with_labels(stream: EventStream, rows: np.ndarray, known: np.ndarray) -> EventStream:
    """Some events with the labels of those at ``known`` alone."""
    label = np.where(np.isin(np.arange(len(stream)), known), stream.label, -1)
    return rows_of(replace(stream, label=label), rows)


def test_labels_that_became_known_later_are_taken_over(
    whole: EventStream, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of training events and of observed ones; known labels stay, and nothing changes on a failure."""
    first, early = np.arange(TRAINED), np.arange(0, KNOWN, 2)
    settings = {"out": tmp_path / "run", "show": False}
    run = fit(with_labels(whole, first, early), "popularity", **settings)
    run.observe(with_labels(whole, np.arange(TRAINED, KNOWN), early))
    week = shuffled(np.arange(250, KNOWN + 5))
    later = with_labels(whole, week, np.arange(0, 320))
    expected = np.where(np.isin(np.arange(KNOWN), early), whole.label[:KNOWN], -1)
    columns = later.to_arrow().to_pydict()
    missed = {"src": 1, "dst": 30, "t": 7, "label": 0, "features": [0.5, 0.25]}
    with pytest.raises(DataError, match="is before the last event"):
        run.observe({name: [*column, missed[name]] for name, column in columns.items()}, repeated="skip")
    np.testing.assert_array_equal(run.labeled_stream.label, expected)
    wrong = rows_of(whole, np.arange(310, 320))
    wrong = replace(wrong, label=1 - wrong.label)
    with caplog.at_level(logging.INFO, "contig"):
        assert run.observe(rows_of(whole, np.arange(250, 290)), repeated="skip") == 0
        assert run.observe(later, repeated="skip") == 5
        assert run.observe(wrong, repeated="skip") == 0
    assert "Skipped 40 events that the run already knows; 20 missing labels" in caplog.text
    assert "Skipped 90 events that the run already knows; 15 missing labels" in caplog.text
    assert "10 known events came with another label than before; the first label was kept." in caplog.text
    expected[250:320] = whole.label[250:320]
    for one in (run, Run.open(run.path)):
        np.testing.assert_array_equal(one.labeled_stream.label[:KNOWN], expected)
        np.testing.assert_array_equal(one.trained_stream.label, expected[:TRAINED])
    content = run.folder.load("observed.pt")
    for rows in (torch.tensor([TRAINED]), torch.tensor([-1]), torch.tensor([2.0]), torch.tensor(3), [3]):
        with run.folder.locked():
            run.folder.save("observed.pt", {**content, "training_labels": {"rows": rows, "labels": ONE}})
        with pytest.raises(RunError, match="training_labels are not labels of training events"):
            Run.open(run.path)


def test_late_events_remain_late_when_known_ones_are_skipped(run: Run, whole: EventStream) -> None:
    columns = rows_of(whole, np.arange(330, 350)).to_arrow().to_pydict()
    missed = {"src": 1, "dst": 30, "t": 7, "label": 0, "features": [0.5, 0.25]}
    missed = {name: [*column, missed[name]] for name, column in columns.items()}
    with pytest.raises(
        DataError, match=r"row 20 .*t=7 is before the last event .* \(1 of 11 events is older\)"
    ):
        run.observe(missed, repeated="skip")
    assert run.observe(missed, repeated="skip", late="accept") == 11
    assert len(run.stream) == 351


def test_a_refusal_counts_known_and_late_events(run: Run, whole: EventStream) -> None:
    version = run.folder.version("observed.pt")
    known = rows_of(whole, np.arange(330, 340))
    with pytest.raises(DataError) as refused:
        run.observe(known)
    text = str(refused.value)
    first, last = whole.t[330], whole.t[KNOWN - 1]
    assert f"row 0 (counted from 0): the run already knows this event (t={first}) and the other 9." in text
    assert "--repeated skip" in text
    assert "New events must come in time order" not in text
    mixed = known.to_arrow().to_pydict()
    mixed = {name: [*column, *column[:2]] for name, column in mixed.items()}
    mixed["dst"][-2:] = [9001, 9002]
    with pytest.raises(DataError) as refused:
        run.observe(mixed)
    text = str(refused.value)
    assert "10 of 12 events are known. 2 of 12 events are new, but older than the last known one, at " in text
    assert re.search(rf"at {last}\. To skip known events, .* use late='accept' \(--late accept\)\.$", text)
    with pytest.raises(DataError, match=r"To skip known events, use .*\. Only events after those of the run"):
        run.evaluate(data=known, show=False)
    assert run.folder.version("observed.pt") == version
    with pytest.raises(ConfigError, match="value for repeated 'ignore'"):
        run.observe(known, repeated="ignore")


def test_some_events_at_the_last_known_time_may_have_happened_again(
    run: Run, whole: EventStream, caplog: pytest.LogCaptureFixture
) -> None:
    last = rows_of(whole, np.array([KNOWN - 1]))
    with pytest.raises(DataError, match=r"the run already knows this event \(t=\d+\)\. To skip"):
        run.observe(last)
    piece = rows_of(whole, np.r_[KNOWN - 1, np.arange(KNOWN, KNOWN + 6)])
    assert run.observe(piece) == 7
    assert "1 of 7 events is the same as a known one, at" in caplog.text
    assert "--repeated skip" in caplog.text


def test_known_events_are_found_by_multiplicity() -> None:
    """Of equal events, as many are known as the run knows; compared with crossing them off one by one."""
    rng = np.random.default_rng(3)
    for late in (False, True):
        old = random_events(rng, 70, late=late)
        new = random_events(rng, 50, late=late, first=4)
        left: list[tuple[int, int, int, float] | None] = [*old]
        expected = []
        for event in new:
            expected.append(left.index(event) if event in left else -1)
            if event in left:
                left[left.index(event)] = None
        assert 5 < expected.count(-1) < 45
        assert known_positions(arrivals(old, late=late), numbered(new)).tolist() == expected


def random_events(
    rng: np.random.Generator, count: int, *, late: bool, first: int = 0
) -> list[tuple[int, int, int, float]]:
    ranges = ((0, 3), (0, 2), (first, 9), (0, 2))
    columns = (rng.integers(*limits, count).tolist() for limits in ranges)
    events = [(src, 3 + dst, t, float(value)) for src, dst, t, value in zip(*columns, strict=True)]
    return events if late else sorted(events, key=lambda event: event[2])


def arrivals(events: list[tuple[int, int, int, float]], *, late: bool) -> Arrivals:
    src, dst, t, values = map(np.array, zip(*events, strict=True))
    clock = np.maximum.accumulate(t)
    features = values.astype(np.float32)[:, None]
    stream = EventStream.from_arrays(src, dst, clock, edge_features=features)
    labels = stream.ids.labels.tolist()
    assert labels == sorted(labels)
    return Arrivals(stream, t if late else None, np.flatnonzero(t < clock))


def numbered(events: list[tuple[int, int, int, float]]) -> NewEvents:
    src, dst, t, values = map(np.array, zip(*events, strict=True))
    return NewEvents(src, dst, t, values.astype(np.float32)[:, None], [], None, np.zeros(len(t), dtype=bool))


def test_the_command_adds_what_is_new(run: Run, whole: EventStream, tmp_path: Path) -> None:
    file = tmp_path / "week.csv"
    rows = rows_of(whole, np.arange(330, 345))
    lines = [
        f"{s},{d},{t},{a},{b}"
        for s, d, t, (a, b) in zip(
            rows.ids.labels[rows.src],
            rows.ids.labels[rows.dst],
            rows.t,
            rows.edge_features.tolist(),
            strict=True,
        )
    ]
    file.write_text("\n".join(["src,dst,t,f0,f1", *lines]) + "\n")
    refused = " ".join(Answer("update", run.path, file).refusal.split())
    assert "week.csv, line 2: the run already knows this event" in refused
    assert "10 of 15 events are known." in refused
    answer = Answer("update", run.path, file, "--repeated", "skip")
    assert answer.code == 0, answer.err
    assert "Skipped 10 events that the run already knows" in answer.words
    assert "observed 5 events and 0 new nodes; it knows 345 events" in answer.words
    again = Answer("update", run.path, file, "--repeated", "skip")
    assert "observed 0 events" in again.words
