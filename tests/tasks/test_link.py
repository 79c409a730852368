"""Link prediction: the metrics of every selection against a slow loop."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from support.problems import random_stream

from contig.data.events import EventStream
from contig.data.splits import HOLDOUTS, Holdout, Split, chronological_split
from contig.errors import RunError
from contig.tasks.link import link_report
from contig.tasks.metrics import LinkScores, link_metrics
from contig.tasks.results import LinkMetrics


@pytest.fixture
def stream() -> EventStream:
    return random_stream(2, events=60, num_nodes=11)


def slow_selections(
    stream: EventStream, split: Split, events: NDArray[np.int64], holdout: Holdout
) -> dict[str, list[int]]:
    """The rows of each selection, decided event by event."""
    names = ("transductive", "inductive", "old_old", "new_old", "new_new")
    chosen: dict[str, list[int]] = {name: [] for name in names}
    trained = {int(v) for i in split.train for v in (stream.src[i], stream.dst[i])}
    for row, event in enumerate(events):
        new = sum(int(v) not in trained for v in (stream.src[event], stream.dst[event]))
        chosen[("old_old", "new_old", "new_new")[new]].append(row)
        if new:
            chosen["inductive"].append(row)
        if holdout != "paper" or not new:
            chosen["transductive"].append(row)
    return chosen


@pytest.mark.parametrize("holdout", HOLDOUTS)
@pytest.mark.parametrize("batch_size", [3, 200])
def test_metrics_against_a_slow_loop(holdout: Holdout, batch_size: int) -> None:
    rng = np.random.default_rng(0)
    stream = random_stream(5, events=160, num_nodes=300)
    split = chronological_split(stream, holdout=holdout, hidden=0.2, seed=1)
    scores = LinkScores(
        rng.normal(0.5, 1, len(split.test)).astype(np.float32),
        rng.normal(0, 1, len(split.test)).astype(np.float32),
    )
    found = link_report(stream, split, split.test, scores, batch_size)
    rows = slow_selections(stream, split, split.test, holdout)
    assert {name: len(r) for name, r in rows.items()} == {n: m.events for n, m in found.each().items()}
    assert min(len(r) for r in rows.values()) > 0  # every selection is tested
    for name, r in rows.items():
        assert found.each()[name] == link_metrics(scores.positive[r], scores.negative[r], batch_size), name
    assert (found.transductive == found.old_old) is (holdout == "paper")


@pytest.mark.parametrize("holdout", HOLDOUTS)
def test_a_model_without_new_nodes_is_not_measured_on_them(holdout: Holdout) -> None:
    """Their events are counted; under either holdout, transductive events are between known nodes."""
    rng = np.random.default_rng(1)
    stream = random_stream(5, events=160, num_nodes=300)
    split = chronological_split(stream, holdout=holdout, hidden=0.2, seed=1)
    scores = LinkScores(*rng.normal(size=(2, len(split.test))).astype(np.float32))
    found = link_report(stream, split, split.test, scores, 7, inductive=False)
    rows = slow_selections(stream, split, split.test, "paper")
    for name in ("inductive", "new_old", "new_new"):
        assert found.each()[name] == LinkMetrics(events=len(rows[name]))
        assert rows[name]
    known = rows["old_old"]
    expected = link_metrics(scores.positive[known], scores.negative[known], 7)
    assert found.transductive == found.old_old == expected


def test_a_stream_without_new_nodes(stream: EventStream) -> None:
    split = chronological_split(stream, holdout="paper")
    split.new_nodes[:] = False
    ones = np.ones(len(split.test), np.float32)
    found = link_report(stream, split, split.test, LinkScores(ones, 0 * ones), 10)
    assert found.inductive == found.new_new == LinkMetrics(events=0)
    assert found.transductive.ap == 1.0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scores_that_are_not_finite_are_refused(stream: EventStream, bad: float) -> None:
    split = chronological_split(stream)
    scores = LinkScores(*np.zeros((2, len(split.test)), np.float32))
    scores.negative[3:5] = bad
    with pytest.raises(RunError, match=rf"scores of 2 events.*event {split.test[3]}\b.*state_norm"):
        link_report(stream, split, split.test, scores, 10)
