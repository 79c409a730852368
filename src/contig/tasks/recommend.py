"""Recommendation: the rank of the true destination among all candidates.

The candidates of an event are all destinations of the stream except the *other* true ones of its source and
time. TGB's ``tgbl-wiki`` has the same rule: its 999 negatives are what its 1,000 destinations leave. TGB
trains on all events before the validation (``holdout=paper``) and measures all test events: ``all_events`` of
the result is its MRR. ``candidates_from`` takes the negatives from a file of TGB or TGB-Seq instead. With
``candidates=N`` there are ``N`` negatives instead, sampled once for each event without replacement: up to
half of them destinations that the source met in training, the rest any, as TGB samples for its larger
streams. The samples are ours, not those of TGB's files.

A tied rank is the mean of the best and the worst one, so a constant score gains nothing. The scores of a
learned model tie where they are within 1e-5 of the true destination's score (relative to it where it exceeds
1), because their last bits depend on the batch and the CPU; ``Model.resolution`` sets it. Those of heuristics
are exact and tie only where they are equal.

Each candidate is embedded *at the event's own time*. Embedding candidates once for a batch is not enough: who
was active a minute ago decides most ranks, and with candidates at the time of the batch's first event a third
to a half of the MRR is left (``contig bench --only ranking-times`` measures it). ``as_of="batch"`` is another
protocol at a hundredth of the cost: sources and candidates are all taken at the time of the batch's first
event, so that no query sees its own batch. Benchmarks that append to their neighbor lists only after a batch
measure that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from contig.data.events import EventStream
from contig.data.splits import Split
from contig.errors import ConfigError
from contig.options import option
from contig.tasks.metrics import rank_metrics
from contig.tasks.predictions import Measured
from contig.tasks.results import Protocol, RankMetrics, Selections, TaskResult
from contig.tasks.selections import by_selection, check_finite
from contig.tasks.tables import ResultTable, event_count, few_notes, percent, selection_rows
from contig.tasks.task import EVALUATION_SEED, Task

if TYPE_CHECKING:
    from contig.tasks.context import EvaluationContext

AsOf = Literal["event", "batch"]

TIES = "mean of the best and the worst rank"
TIMES = {
    "event": "candidates and sources at each event's own time",
    "batch": "candidates and sources at the time of the batch's first event",
}


@dataclass(frozen=True)
class RecommendOptions:
    """Options of recommendation."""

    candidates: int | None = option(
        None, "negatives to sample for each event, instead of ranking all destinations", low=1
    )
    candidates_from: str | None = option(
        None,
        "a file with the negatives of each test event: ..._test_ns.pkl of TGB, ..._test_ns.npy of TGB-Seq",
        file=True,
    )
    as_of: AsOf = option(
        "event", "rank at each event's own time, or (much faster) at that of its batch's first event: batch"
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class RecommendProtocol(Protocol):
    """How destinations were ranked."""

    candidates: str
    ties: str
    times: str
    candidate_seed: int | None = None  # of sampled candidates


@dataclass(frozen=True, kw_only=True, eq=False)
class RecommendResult(Selections[RankMetrics], TaskResult):
    """MRR and recalls of every selection.

    ``all_events`` are all test events whatever the holdout, as TGB measures them; None for a model that
    cannot score new nodes, and in older files.
    """

    protocol: RecommendProtocol
    all_events: RankMetrics | None = None


def recommend_report(
    stream: EventStream,
    split: Split,
    events: NDArray[np.int64],
    ranks: NDArray[np.float32],
    *,
    inductive: bool = True,
) -> Selections[RankMetrics]:
    """Measure every selection of the events."""
    check_finite(stream, events, ranks)

    def measure(rows: NDArray[np.bool_]) -> RankMetrics:
        return rank_metrics(ranks[rows])

    return by_selection(stream, split, events, measure, _unmeasured, inductive=inductive)


def _unmeasured(events: int) -> RankMetrics:
    return RankMetrics(events=events)


class RecommendTask(Task[RecommendOptions, RecommendResult]):
    """MRR and recalls of the test events' destinations."""

    name = "recommend"
    summary = "rank of the true destination among all destinations"
    options = RecommendOptions
    result_type = RecommendResult
    headline = "mrr"
    selections = {"transductive": "transductive", "inductive": "inductive"}  # noqa: RUF012

    def protocol(self, context: EvaluationContext) -> RecommendProtocol:
        sampled, everyone = self._sampled(context), len(context.data.stream.destinations)
        candidates = f"all {everyone:,} destinations but the other true ones of that source and time"
        if sampled is not None:
            candidates = (
                f"{sampled:,} sampled for each event, up to half of them met by its source in training, none "
                "true at its source and time"
            )
        if self.opt.candidates_from is not None:
            candidates = f"those of {Path(self.opt.candidates_from).name}"
        return self.describe(
            RecommendProtocol,
            context,
            candidates=candidates,
            ties=TIES,
            times=TIMES[self.opt.as_of],
            candidate_seed=None if sampled is None else EVALUATION_SEED,
        )

    def _sampled(self, context: EvaluationContext) -> int | None:
        """Return how many negatives to sample; None where all destinations are ranked."""
        wanted = self.opt.candidates
        return None if wanted is None or wanted >= len(context.data.stream.destinations) - 1 else wanted

    def measure_each(self, context: EvaluationContext) -> Measured[RecommendResult]:
        from contig.tasks.ranking import rank_test_events

        data, inductive = context.data, context.model.inductive
        ranks = rank_test_events(context, self._negatives(context), self.opt.as_of)
        report = recommend_report(data.stream, data.split, data.split.test, ranks, inductive=inductive)
        everything = rank_metrics(ranks) if inductive else None
        result = RecommendResult(protocol=self.protocol(context), all_events=everything, **report.each())
        return Measured(result, {"rank": ranks})

    def _negatives(self, context: EvaluationContext) -> NDArray[np.int64] | None:
        """Return the negatives of each test event; None where all destinations are ranked."""
        from contig.data.candidate_files import read_candidates
        from contig.tasks.ranking import sample_negatives

        data, sampled = context.data, self._sampled(context)
        if self.opt.candidates_from is not None:
            if self.opt.candidates is not None:
                raise ConfigError("candidates and candidates_from exclude each other; set one of them.")
            return read_candidates(self.opt.candidates_from, data.stream, data.split.test)
        return (
            None if sampled is None else sample_negatives(data.stream, data.split, data.split.test, sampled)
        )

    @classmethod
    def selections_by(cls, protocol: Protocol) -> Mapping[str, str]:
        if protocol.holdout == "paper":  # otherwise the transductive events are all events
            return {**cls.selections, "all (TGB)": "all_events"}
        return cls.selections

    @classmethod
    def table(cls, results: Mapping[str, RecommendResult]) -> ResultTable:
        protocol = next(iter(results.values())).protocol
        rows = selection_rows(results, _cells, cls.selections_by(protocol))
        return ResultTable(
            headings=("Test, %", "model", "MRR", "R@5", "R@10", "R@15", "R@20", "events"),
            rows=rows,
            notes=(
                "R@K: share of events whose true destination is among the first K",
                f"candidates: {protocol.candidates}",
                f"times: {protocol.times}",
                f"ties: {protocol.ties}",
                *few_notes(rows),
            ),
        )


def _cells(metrics: RankMetrics | None) -> tuple[str, ...]:
    metrics = RankMetrics(events=0) if metrics is None else metrics
    recalls = metrics.recall_at_5, metrics.recall_at_10, metrics.recall_at_15, metrics.recall_at_20
    return (*map(percent, (metrics.mrr, *recalls)), event_count(metrics.events))
