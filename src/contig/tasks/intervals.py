"""Link prediction by how long the source has been inactive.

The interval of an event is the time since its source last appeared, 0 for its first appearance (the
paper's Definition 3). The 20, 40, 60 and 80% quantiles over the test events cut them into five sets, the
same for every selection. Equal intervals stay in one set, so sets may differ in size. The scores are those
of link prediction, with the negatives of the protocol ``ours`` for inductive events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan, nan
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from contig.data.clock import duration
from contig.data.events import EventStream
from contig.data.splits import Split, interval_sets, intervals
from contig.tasks.link import (
    METRICS,
    LinkOptions,
    NegativesProtocol,
    link_columns,
    link_report,
    negatives_note,
)
from contig.tasks.metrics import LinkScores
from contig.tasks.predictions import Measured
from contig.tasks.results import LinkMetrics, Selections, TaskResult
from contig.tasks.selections import check_finite
from contig.tasks.tables import SELECTIONS, ResultTable, event_count, few_notes, percent
from contig.tasks.task import Task

if TYPE_CHECKING:
    from contig.tasks.context import EvaluationContext

SETS = ("0-20%", "20-40%", "40-60%", "60-80%", "80-100%")
Spans = dict[str, tuple[float, float] | None]


@dataclass(frozen=True, kw_only=True, eq=False)
class IntervalProtocol(NegativesProtocol):
    """How links were scored, and how the sets are cut."""

    sets: str


@dataclass(frozen=True, kw_only=True, eq=False)
class IntervalResult(Selections[dict[str, LinkMetrics]], TaskResult):
    """Link metrics of five sets of events, and the shortest and longest interval of each.

    A set without events has no interval. Intervals are in the unit of the stream, of which a second has
    ``per_second``; NaN in older files.
    """

    protocol: IntervalProtocol
    intervals: Spans
    per_second: float = nan


class IntervalReport(NamedTuple):
    """The shortest and longest interval of each set, and its metrics."""

    spans: Spans
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
    check_finite(stream, events, np.stack(scores, axis=1))
    lengths = intervals(stream)[events]
    member = interval_sets(lengths)
    spans: Spans = {}
    found: dict[str, dict[str, LinkMetrics]] = {}
    for number, name in enumerate(SETS):
        inside = member == number
        spans[name] = (float(lengths[inside].min()), float(lengths[inside].max())) if inside.any() else None
        chosen = LinkScores(scores.positive[inside], scores.negative[inside])
        report = link_report(stream, split, events[inside], chosen, batch_size, inductive=inductive)
        for selection, metrics in report.each().items():
            found.setdefault(selection, {})[name] = metrics
    return IntervalReport(spans, Selections(**found))


class IntervalsTask(Task[LinkOptions, IntervalResult]):
    """AP and AUC of the test events in five sets, by how long the source has been inactive."""

    name = "intervals"
    summary = "AP and AUC by how long the source has been inactive"
    options = LinkOptions
    result_type = IntervalResult

    @classmethod
    def scores_heuristics(cls) -> bool:
        return True

    def measure_each(self, context: EvaluationContext) -> Measured[IntervalResult]:
        from contig.tasks.link_negatives import draw_negatives
        from contig.tasks.link_scoring import score_ours

        data, inductive = context.data, context.model.inductive
        negatives = draw_negatives(data.stream, data.split, data.split.test, self.opt.negatives)
        scores = score_ours(context, negatives)
        report = interval_report(
            data.stream, data.split, data.split.test, scores, context.batch_size, inductive=inductive
        )
        protocol = self.describe(
            IntervalProtocol,
            context,
            negatives=negatives.kind,
            metrics=METRICS,
            random_fallback=negatives.random_fallback,
            sets="quintiles over the test events of the time since the source last appeared, 0 for the first",
        )
        result = IntervalResult(
            protocol=protocol,
            intervals=report.spans,
            per_second=data.stream.time_span.per_second,
            **report.metrics.each(),
        )
        columns = link_columns(scores, learns=context.model.learns)
        return Measured(result, {**columns, "interval": intervals(data.stream)[data.split.test]})

    @classmethod
    def table(cls, results: Mapping[str, IntervalResult]) -> ResultTable:
        alone = len(results) == 1  # without the name of the model the table fits 80 columns
        rows = tuple(
            _row(name if alone else f"{name}, {model}", result, name)
            for model, result in results.items()
            for name in SETS
        )
        return ResultTable(
            headings=("Test, %", "up to", "AP", "AUC", "events", "new AP", "new AUC", "new"),
            rows=rows,
            names=1,
            notes=(
                "sets: by the time since the source last appeared (0 for the first time)",
                "up to: the longest such time in the set",
                "new: events with a new node",
                *dict.fromkeys(negatives_note(result.protocol) for result in results.values()),
                *few_notes(rows),
            ),
        )


def _row(heading: str, result: IntervalResult, name: str) -> tuple[str, ...]:
    span = result.intervals[name]
    cells = [cell for s in SELECTIONS for cell in _cells(getattr(result, s)[name])]
    return (heading, "-" if span is None else _length(span[1], result.per_second), *cells)


def _cells(metrics: LinkMetrics) -> tuple[str, ...]:
    return (percent(metrics.ap), percent(metrics.auc), event_count(metrics.events))


def _length(interval: float, per_second: float) -> str:
    """Return an interval in words, or as a number where the unit is not known."""
    return f"{interval:,.10g}" if isnan(per_second) else duration(interval / per_second)
