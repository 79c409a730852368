"""Link prediction by how long the source has been away.

The interval of an event is the time since its source last appeared, 0 for its first appearance (the
paper's Definition 3). The 20, 40, 60 and 80% quantiles over the test events cut them into five sets, the
same for every selection; where many intervals are equal (0, say) they stay in one set, so sets may
differ in size. The scores are those of link prediction.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from contig.data.events import EventStream
from contig.data.negatives import Kind
from contig.data.splits import Split, interval_sets, intervals
from contig.tasks.link import METRICS, LinkScores, check_scores, link_report, scores_of_test
from contig.tasks.results import IntervalProtocol, IntervalResult, LinkMetrics, Selections
from contig.tasks.setting import Setting

SETS = ("0-20%", "20-40%", "40-60%", "60-80%", "80-100%")


class IntervalReport(NamedTuple):
    """The shortest and the longest interval of each set, and its metrics."""

    spans: dict[str, tuple[float, float] | None]
    metrics: Selections[dict[str, LinkMetrics]]


def interval_report(
    stream: EventStream,
    split: Split,
    events: NDArray[np.int64],
    scores: LinkScores,
    batch_size: int,
    *,
    inductive: bool = True,
) -> IntervalReport:
    """Measure every selection of each set."""
    check_scores(stream, events, np.stack(scores, axis=1))
    away = intervals(stream)[events]
    member = interval_sets(away)
    spans: dict[str, tuple[float, float] | None] = {}
    found: dict[str, dict[str, LinkMetrics]] = {}
    for number, name in enumerate(SETS):
        inside = member == number
        spans[name] = (float(away[inside].min()), float(away[inside].max())) if inside.any() else None
        chosen = LinkScores(scores.positive[inside], scores.negative[inside])
        report = link_report(stream, split, events[inside], chosen, batch_size, inductive=inductive)
        for selection, metrics in report.each().items():
            found.setdefault(selection, {})[name] = metrics
    return IntervalReport(spans, Selections(**found))


def measure(setting: Setting, negatives: Kind = "random") -> IntervalResult:
    """AP and AUC of the test events in five sets, from the shortest absences to the longest."""
    scores = scores_of_test(setting, negatives)
    report = interval_report(
        setting.stream,
        setting.split,
        setting.split.test,
        scores,
        setting.batch_size,
        inductive=setting.model.inductive,
    )
    protocol = IntervalProtocol.of(
        "intervals",
        setting.split.holdout,
        inductive=setting.model.inductive,
        negatives=negatives,
        metrics=METRICS,
        sets="quintiles over the test events of the time since the source last appeared, 0 for the first",
    )
    return IntervalResult(protocol=protocol, intervals=report.spans, **report.metrics.each())
