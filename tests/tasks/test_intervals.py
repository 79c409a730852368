"""Link prediction by inactivity of the source, against a loop with a dictionary and sklearn."""

from __future__ import annotations

from dataclasses import replace
from math import nan

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score
from support.evaluation import context_of
from support.problems import case, random_stream, shape_of, stream_of

from contig.data.events import EventStream
from contig.data.splits import HOLDOUTS, Holdout, chronological_split
from contig.errors import RunError
from contig.tasks.intervals import SETS, IntervalsTask, interval_report
from contig.tasks.link_scoring import score_test_events
from contig.tasks.metrics import LinkScores
from contig.tasks.results import LinkMetrics


def quantile(values: list[float], share: float) -> float:
    """The quantile of some values, by linear interpolation."""
    ordered, place = sorted(values), share * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


@pytest.mark.parametrize("holdout", HOLDOUTS)
@pytest.mark.parametrize("batch_size", [7, 200])
def test_metrics_against_brute_force(holdout: Holdout, batch_size: int) -> None:
    stream = random_stream(5, events=900, num_nodes=500)
    split = chronological_split(stream, holdout=holdout, seed=1)
    events, rng = split.test, np.random.default_rng(0)
    scores = LinkScores(
        *(rng.integers(low, low + 9, len(events)).astype(np.float32) for low in (2, 0))  # many ties
    )
    found = interval_report(stream, split, events, scores, batch_size)

    last: dict[int, float] = {}
    inactive = []
    for s, d, t in zip(stream.src.tolist(), stream.dst.tolist(), stream.t.tolist(), strict=True):
        inactive.append(t - last.get(s, t))
        last[s] = last[d] = t
    tested = [inactive[i] for i in events]
    cuts = [quantile(tested, share) for share in (0.2, 0.4, 0.6, 0.8)]
    trained = {int(v) for i in split.train for v in (stream.src[i], stream.dst[i])}
    seen = 0
    for number, name in enumerate(SETS):
        rows = [i for i, x in enumerate(tested) if sum(x > cut for cut in cuts) == number]
        assert found.spans[name] == (min(tested[i] for i in rows), max(tested[i] for i in rows))
        new = [
            i for i in rows if not {int(stream.src[events[i]]), int(stream.dst[events[i]])} <= trained
        ]  # fmt: skip
        old = [i for i in rows if i not in new]
        for selection, mine in (("transductive", old if holdout == "paper" else rows), ("inductive", new)):
            got = getattr(found.metrics, selection)[name]
            assert got.events == len(mine) > 0
            aps, aucs = [], []
            for start in range(0, len(mine), batch_size):
                part = mine[start : start + batch_size]
                truth = np.r_[np.ones(len(part)), np.zeros(len(part))]
                guess = np.r_[scores.positive[part], scores.negative[part]]
                aps.append(average_precision_score(truth, guess))
                aucs.append(roc_auc_score(truth, guess))
            assert got.ap == pytest.approx(np.mean(aps))
            assert got.auc == pytest.approx(np.mean(aucs))
        seen += len(rows)
    assert seen == len(events)


def test_equal_intervals_stay_in_one_set() -> None:
    stream = stream_of([(2 * i, 2 * i + 1, i) for i in range(60)], 120)  # every node appears once
    split = chronological_split(stream, holdout="paper")
    ones = np.ones(len(split.test), np.float32)
    found = interval_report(stream, split, split.test, LinkScores(ones, 0 * ones), 10)
    assert found.spans == {"0-20%": (0, 0), **dict.fromkeys(SETS[1:])}
    assert found.metrics.inductive["0-20%"].events == len(split.test)
    empty = LinkMetrics(events=0)
    assert found.metrics.inductive["40-60%"] == found.metrics.transductive["0-20%"] == empty


def test_scores_are_those_of_link_prediction() -> None:
    stream = random_stream(9, events=300, num_nodes=30)
    model, split = case("tgn", shape_of(stream)), chronological_split(stream)

    found = IntervalsTask.of(negatives="historical").measure(context_of(model, stream, 20))
    assert found.protocol.negatives == "historical"
    assert "quintiles" in found.protocol.sets
    scores = score_test_events(context_of(model, stream, 20), "historical")
    spans, metrics = interval_report(stream, split, split.test, scores, 20)
    assert found.intervals == spans
    assert found.each() == metrics.each()
    assert found.each() != IntervalsTask().measure(context_of(model, stream, 20)).each()


def test_scores_that_are_not_finite_are_refused() -> None:
    stream = random_stream(9, events=100)
    split = chronological_split(stream)
    scores = LinkScores(*np.zeros((2, len(split.test)), np.float32))
    scores.positive[1] = np.nan
    with pytest.raises(RunError, match=rf"event {split.test[1]}\b"):
        interval_report(stream, split, split.test, scores, 10)


def test_the_table_has_lengths_in_words() -> None:
    milliseconds = 1_700_000_000_000 + 5_400_000 * np.arange(60)  # an event every 90 minutes, 3 sources
    stream = EventStream.from_arrays(np.arange(60) % 3, 5 + np.arange(60) % 4, milliseconds)
    found = IntervalsTask().measure(context_of(case("tgn", shape_of(stream)), stream, 20))
    lengths = {row[1] for row in IntervalsTask.table({"tgn": found}).rows}
    assert lengths == {"4.5 hours", "-"}
    older = IntervalsTask.table({"tgn": replace(found, per_second=nan)})
    assert {row[1] for row in older.rows} == {"16,200,000", "-"}
