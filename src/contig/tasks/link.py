"""Link prediction: each test event against one negative pair.

Inductive events, those with a new node, are measured by two protocols:

- ``ours``: with the negatives that they have among all test events;
- ``dyglib``: as in TGN's code, DyGLib and TPNet, in batches of inductive events alone, with negatives drawn
  among those events' own destinations (or edges). Published inductive figures compare with this one only.

Both are scored by one walk over all events: see ``contig.tasks.link_scoring``. DyGLib holds nodes out as
``holdout=tgn`` does: a tenth of all nodes, drawn among those that occur after the training cut, in addition
to those that training never sees. It draws another tenth than we do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from contig.data.events import EventStream
from contig.data.splits import Split
from contig.options import option
from contig.tasks.metrics import LinkScores, link_metrics
from contig.tasks.predictions import Columns, Measured, score_columns
from contig.tasks.results import UNMEASURED, Evaluation, LinkMetrics, Protocol, Selections, TaskResult
from contig.tasks.selections import by_selection, check_finite
from contig.tasks.tables import ResultTable, event_count, few_notes, percent, selection_rows
from contig.tasks.task import Task
from contig.wording import counted

if TYPE_CHECKING:
    from contig.tasks.context import EvaluationContext
    from contig.tasks.link_negatives import LinkNegatives
    from contig.tasks.link_scoring import ScoredLinks

NegativeKind = Literal["random", "random-any", "historical", "inductive", "historical-source"]

OURS, DYGLIB = "ind. ours", "ind. dyglib"  # as tables name the two protocols
INDUCTIVE_NOTE = (
    "ind.: events with a new node, with the negatives they have among all events (ours) or with negatives "
    "drawn for them alone (dyglib), as in published tables"
)
DYGLIB_TEXT = "inductive events in batches of their own, with negatives among themselves, as DyGLib"
FEW_BATCHES = 10  # of which a small one has weight
METRICS = "ap and auc: mean over batches; *_overall: over all events"


@dataclass(frozen=True)
class LinkOptions:
    """Options of link prediction."""

    negatives: NegativeKind = option(
        "random",
        "how negatives are sampled: random (never true), random-any, historical or inductive (as DyGLib), "
        "historical-source",
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class NegativesProtocol(Protocol):
    """How links were scored.

    ``random_fallback`` is the share of negatives that had to be random because none of their kind was left;
    it is NaN, and absent from JSON, for random negatives and where it is unknown.
    """

    negatives: str
    metrics: str
    random_fallback: float = nan


@dataclass(frozen=True, kw_only=True, eq=False)
class LinkProtocol(NegativesProtocol):
    """How links were scored by both protocols of inductive events."""

    inductive_dyglib: str
    random_fallback_dyglib: float = nan


@dataclass(frozen=True, kw_only=True, eq=False)
class LinkResult(Selections[LinkMetrics], TaskResult):
    """AP and AUC of every selection; ``inductive_dyglib`` are the inductive events by DyGLib's protocol."""

    protocol: LinkProtocol
    inductive_dyglib: LinkMetrics


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


def link_result(context: EvaluationContext, negatives: LinkNegatives, scores: ScoredLinks) -> LinkResult:
    """Measure events by both protocols from their scores."""
    data, inductive, size = context.data, context.model.inductive, context.batch_size
    events, stream = negatives.events, data.stream
    report = link_report(stream, data.split, events, scores.ours, size, inductive=inductive)
    new = events[negatives.inductive]
    dyglib = _unmeasured(len(new))
    if inductive:
        check_finite(stream, new, np.stack(scores.dyglib, axis=1))
        dyglib = link_metrics(*scores.dyglib, size)
    protocol = _protocol(
        context,
        negatives=negatives.kind,
        random_fallback=negatives.random_fallback,
        random_fallback_dyglib=negatives.random_fallback_dyglib,
    )
    return LinkResult(protocol=protocol, inductive_dyglib=dyglib, **report.each())


def _protocol(context: EvaluationContext, **details: Any) -> LinkProtocol:
    dyglib = DYGLIB_TEXT if context.model.inductive else UNMEASURED
    return LinkTask().describe(LinkProtocol, context, metrics=METRICS, inductive_dyglib=dyglib, **details)


def no_links() -> Selections[LinkMetrics]:
    """Return the metrics of no events."""
    return Selections(**dict.fromkeys(Selections.__dataclass_fields__, _unmeasured(0)))


def no_test(context: EvaluationContext) -> LinkResult:
    """Return the result of a model that learned from every event, which leaves none to test on."""
    protocol = _protocol(context, negatives="random")
    return LinkResult(protocol=protocol, inductive_dyglib=_unmeasured(0), **no_links().each())


class LinkTask(Task[LinkOptions, LinkResult]):
    """AP and AUC of the test events against their negatives."""

    name = "link"
    summary = "AP and AUC of links"
    options = LinkOptions
    result_type = LinkResult
    headline = "ap"
    selections = {"transductive": "transductive", OURS: "inductive", DYGLIB: "inductive_dyglib"}  # noqa: RUF012

    def measure_each(self, context: EvaluationContext) -> Measured[LinkResult]:
        from contig.tasks.link_negatives import draw_negatives
        from contig.tasks.link_scoring import score_links

        data = context.data
        negatives = draw_negatives(data.stream, data.split, data.split.test, self.opt.negatives)
        with context.progress_bar("test", len(negatives.events)) as progress:
            scores = score_links(context, negatives, progress)
        result = link_result(context, negatives, scores)
        return Measured(result, link_columns(scores.ours, learns=context.model.learns))

    @classmethod
    def table(cls, results: Mapping[str, LinkResult]) -> ResultTable:
        rows = selection_rows(results, _cells, cls.selections)
        inductive = any(row[0] in (OURS, DYGLIB) for row in rows)
        return ResultTable(
            headings=("Test, %", "model", "AP", "AUC", "AP all", "AUC all", "events"),
            rows=rows,
            notes=(
                *dict.fromkeys(negatives_note(result.protocol) for result in results.values()),
                "AP and AUC: mean over batches; all: over all events at once",
                *((INDUCTIVE_NOTE,) if inductive else ()),
                *few_notes(rows),
            ),
        )

    @classmethod
    def notes(cls, evaluation: Evaluation[LinkResult]) -> Sequence[str]:
        """Say so where AP and AUC are means over a few batches, the last of which is small."""
        size = evaluation.facts.batch_size
        whole, rest = divmod(evaluation.result.transductive.events, size)
        if not 0 < whole <= FEW_BATCHES or not 0 < rest < size // 4:
            return ()
        return (
            f"the last of {whole + 1} batches has only {counted(rest, 'event')}, and counts as much as a "
            "full one in AP and AUC; AP all and AUC all weight every event equally",
        )


def link_columns(scores: LinkScores, *, learns: bool) -> Columns:
    """Return the scores of events as predictions, and those of their negatives."""
    return {**score_columns(scores.positive, learns=learns), "negative_score": scores.negative}


def negatives_note(protocol: NegativesProtocol) -> str:
    """Say how negatives were sampled, and how many had to be random."""
    note = f"negatives: {protocol.negatives}"
    if isnan(protocol.random_fallback):
        return note
    note += f", {percent(protocol.random_fallback)}% of them random because no other was left"
    if not isinstance(protocol, LinkProtocol) or isnan(protocol.random_fallback_dyglib):
        return note
    return f"{note} ({percent(protocol.random_fallback_dyglib)}% by dyglib)"


def _cells(metrics: LinkMetrics) -> tuple[str, ...]:
    shares = metrics.ap, metrics.auc, metrics.ap_overall, metrics.auc_overall
    return (*map(percent, shares), event_count(metrics.events))
