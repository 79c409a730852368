"""Link prediction: the true destination of each test event against one sampled destination."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from contig.data.events import EventStream
from contig.data.splits import Holdout, Split
from contig.options import option
from contig.tasks.metrics import LinkScores, link_metrics
from contig.tasks.results import LinkMetrics, Protocol, Selections, TaskResult
from contig.tasks.selections import by_selection, check_finite
from contig.tasks.tables import ResultTable, count, percent, selection_rows
from contig.tasks.task import Task

if TYPE_CHECKING:
    from contig.tasks.context import EvaluationContext

NegativeKind = Literal["random", "historical", "inductive"]  # that of contig.data.negatives, without torch

METRICS = "ap and auc: mean over batches; *_overall: over all events"


@dataclass(frozen=True)
class LinkOptions:
    """Options of link prediction."""

    negatives: NegativeKind = option("random", "how negatives are sampled: random, historical or inductive")


@dataclass(frozen=True, kw_only=True, eq=False)
class LinkProtocol(Protocol):
    """How links were scored."""

    negatives: str
    metrics: str


@dataclass(frozen=True, kw_only=True, eq=False)
class LinkResult(Selections[LinkMetrics], TaskResult):
    """AP and AUC of every selection."""

    protocol: LinkProtocol


def link_report(
    stream: EventStream,
    split: Split,
    events: NDArray[np.int64],
    scores: LinkScores,
    batch_size: int,
    *,
    inductive: bool = True,
) -> Selections[LinkMetrics]:
    """Measure every selection of the events."""
    check_finite(stream, events, np.stack(scores, axis=1))

    def measure(rows: NDArray[np.bool_]) -> LinkMetrics:
        return link_metrics(scores.positive[rows], scores.negative[rows], batch_size)

    return by_selection(stream, split, events, measure, _unmeasured, inductive=inductive)


def _unmeasured(events: int) -> LinkMetrics:
    return LinkMetrics(events=events)


def link_result(
    stream: EventStream,
    split: Split,
    scores: LinkScores,
    batch_size: int,
    negatives: NegativeKind = "random",
    *,
    inductive: bool = True,
) -> LinkResult:
    """Measure the test events from their scores."""
    report = link_report(stream, split, split.test, scores, batch_size, inductive=inductive)
    protocol = _protocol(split.holdout, negatives, inductive=inductive)
    return LinkResult(protocol=protocol, **report.each())


def _protocol(holdout: Holdout, negatives: NegativeKind, *, inductive: bool) -> LinkProtocol:
    return LinkProtocol.of("link", holdout, inductive=inductive, negatives=negatives, metrics=METRICS)


class LinkTask(Task[LinkOptions, LinkResult]):
    """AP and AUC of the test events against their negatives."""

    name = "link"
    summary = "AP and AUC of links"
    options = LinkOptions
    result_type = LinkResult

    def protocol(self, context: EvaluationContext) -> LinkProtocol:
        holdout, inductive = context.data.split.holdout, context.model.inductive
        return _protocol(holdout, self.opt.negatives, inductive=inductive)

    def measure(self, context: EvaluationContext) -> LinkResult:
        from contig.tasks.link_scoring import score_test_events

        negatives, data = self.opt.negatives, context.data
        scores = score_test_events(context, negatives)
        return link_result(
            data.stream,
            data.split,
            scores,
            context.batch_size,
            negatives,
            inductive=context.model.inductive,
        )

    @classmethod
    def table(cls, results: Mapping[str, LinkResult]) -> ResultTable:
        kinds = dict.fromkeys(result.protocol.negatives for result in results.values())
        return ResultTable(
            headings=("Test, %", "model", "AP", "AUC", "AP overall", "AUC overall", "events"),
            rows=selection_rows(results, _cells),
            notes=(f"negatives: {', '.join(kinds)}",),
        )


def _cells(metrics: LinkMetrics) -> tuple[str, ...]:
    shares = metrics.ap, metrics.auc, metrics.ap_overall, metrics.auc_overall
    return (*map(percent, shares), count(metrics.events))
