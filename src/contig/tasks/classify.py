"""Classification: the label of an event from its source's embedding just before it.

The trained model is frozen. One walk over the whole stream, from a blank state and in batches, gives the
source's embedding at every event's time. A three-layer decoder learns the labels of the training events from
these embeddings alone, is stopped by the AUC of the validation events, and is measured on the test events. It
is trained from several seeds: there are few positives, so the deviation is part of the result.

Positives are rare (1 event in 700 in wikipedia), so every step draws as many positives as negatives.
Embeddings are scaled to mean 0 and deviation 1 over the training events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from contig.data.events import EventStream
from contig.data.splits import Split
from contig.data.validation import UNKNOWN_LABEL
from contig.errors import DataError
from contig.options import option
from contig.schema import Record
from contig.tasks.metrics import area_under_curve
from contig.tasks.predictions import Measured
from contig.tasks.results import Protocol, TaskResult, only_known_nodes
from contig.tasks.tables import ResultTable, count, percent, selection_rows
from contig.tasks.task import Task

if TYPE_CHECKING:
    from contig.tasks.context import EvaluationContext

BALANCE = "each step draws as many positives as others"
ENOUGH = 20  # positives, to suggest a split by where they are


@dataclass(frozen=True)
class ClassifyOptions:
    """Options of classification."""

    seeds: int = option(5, "decoders to train, each from its own seed", low=1)


# -- the result -----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelCounts(Record):
    """The number of events, and how many of them have label 1."""

    events: int
    positives: int


@dataclass(frozen=True, kw_only=True, eq=False)
class SeedMetrics(Record):
    """AUC over the seeds of the decoder: mean, sample standard deviation (0 for one seed), each value."""

    auc: float = np.nan
    auc_std: float = np.nan
    auc_seeds: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelMetrics(SeedMetrics, LabelCounts):
    """AUC of the labels of some events; NaN where all labels are equal."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelParts(Record):
    """The labels of each part of the stream."""

    train: LabelCounts
    validation: LabelCounts
    test: LabelCounts


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassifyProtocol(Protocol):
    """How decoders were trained, on embeddings of the sources of events."""

    KNOWN: ClassVar[str] = "events whose source was seen in training"
    NEW: ClassVar[str] = "events of a new source"

    decoder: str
    balance: str
    decoder_seeds: int
    stopped_by: str


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassifyResult(TaskResult):
    """AUC of the labels; an event is inductive if its source is new."""

    protocol: ClassifyProtocol
    labels: LabelParts
    validation: SeedMetrics
    transductive: LabelMetrics
    inductive: LabelMetrics


class LabelReport(NamedTuple):
    """AUC of the test events, by whether their source is known."""

    transductive: LabelMetrics
    inductive: LabelMetrics


def classify_report(
    stream: EventStream,
    split: Split,
    label: NDArray[np.bool_],
    logits: NDArray[np.float32],
    *,
    inductive: bool = True,
) -> LabelReport:
    """Measure logits ``[seeds, test events]``.

    A model that is not ``inductive`` is not measured on events of new sources: they are only counted.
    """
    new, truth = split.new_nodes[stream.src[split.test]], label[split.test]

    def measure(rows: NDArray[np.bool_], measured: bool = True) -> LabelMetrics:
        counts = _counts(truth[rows])
        if not measured or counts.positives in (0, counts.events):
            return LabelMetrics(events=counts.events, positives=counts.positives)
        each = tuple(area_under_curve(one[rows & truth], one[rows & ~truth]) for one in logits)
        return LabelMetrics(**vars(_over_seeds(each)), **vars(counts))

    only_known = only_known_nodes(split.holdout, inductive)
    return LabelReport(measure(~new if only_known else np.ones_like(new)), measure(new, measured=inductive))


def label_parts(split: Split, label: NDArray[np.bool_]) -> LabelParts:
    """Count the labels of each part of a split."""
    train, validation, test = (_counts(label[part]) for part in (split.train, split.val, split.test))
    return LabelParts(train=train, validation=validation, test=test)


def _counts(label: NDArray[np.bool_]) -> LabelCounts:
    return LabelCounts(events=len(label), positives=int(label.sum()))


def _over_seeds(values: tuple[float, ...]) -> SeedMetrics:
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return SeedMetrics(auc=float(np.mean(values)), auc_std=deviation, auc_seeds=values)


# -- the task -------------------------------------------------------------------------------------------


def labels_of(stream: EventStream) -> NDArray[np.int64]:
    """Return the labels of a stream; raise a ``DataError`` if it has none."""
    if stream.label is None:
        raise DataError(
            f"{stream.origin} has no labels to classify. Train a run on a stream with labels, and name their "
            "column with label=... (--label COLUMN)."
        )
    return stream.label


def check_labels(stream: EventStream, split: Split, test_origin: str | None = None) -> NDArray[np.bool_]:
    """Return the labels as booleans; raise a ``DataError`` where there is nothing to learn or to measure.

    ``test_origin`` names the source of the test events, by default that of the stream. Events that are in no
    part need no label.
    """
    given = labels_of(stream)
    label: NDArray[np.bool_] = given == 1
    later = (
        len(stream) if test_origin is None else int(split.test[0])
    )  # where events of the other origin begin
    other = np.flatnonzero(~np.isin(given, (0, 1, UNKNOWN_LABEL)))
    if len(other):
        raise DataError(
            f"{test_origin if other[0] >= later else stream.origin}: label {given[other[0]]} is "
            "neither 0 nor 1; use 1 for the positive class and 0 for everything else."
        )
    for name, part in (("training", split.train), ("validation", split.val), ("test", split.test)):
        if name == "test" and not len(part):
            continue
        origin = test_origin if name == "test" and test_origin else stream.origin
        if missing := int((given[part] == UNKNOWN_LABEL).sum()):
            raise DataError(
                f"{origin}: {missing:,} of the {len(part):,} {name} events have no label, or the label "
                f"{UNKNOWN_LABEL}, which this task cannot measure. contig classify leaves such events out."
            )
        if problem := _one_sided(label[part], name):
            cure = _cure(split, label)
            raise DataError(f"{origin}: {problem}, but both labels are needed in every part. {cure}")
    return label


def _one_sided(label: NDArray[np.bool_], name: str) -> str | None:
    """Say that all labels of a part are equal, or that it has none."""
    positives = int(label.sum())
    if not len(label):
        return f"no {name} event has a label"
    if positives in (0, len(label)):
        return f"{positives:,} of the {len(label):,} {name} events have label 1"
    return None


def _cure(split: Split, label: NDArray[np.bool_]) -> str:
    if split.final:
        return "Use a longer stream, or a run that was not trained on every event (--final)."
    return f"Use a longer stream, or train with other parts{_other_parts(label)}."


def _other_parts(label: NDArray[np.bool_]) -> str:
    """Suggest a split that has 70, 15 and 15% of the positives in its parts."""
    positive = np.flatnonzero(label)
    if len(positive) < ENOUGH:
        return " (--split)"
    first, second = (round(positive[int(share * len(positive))] / len(label), 2) for share in (0.7, 0.85))
    return f", such as --split {first:.2f},{second - first:.2f}" if 0 < first < second < 1 else " (--split)"


class ClassifyTask(Task[ClassifyOptions, ClassifyResult]):
    """AUC of the test events' labels, over several decoders."""

    name = "classify"
    summary = "AUC of the labels of events"
    options = ClassifyOptions
    result_type = ClassifyResult

    def protocol(self, context: EvaluationContext) -> ClassifyProtocol:
        return self.describe(
            ClassifyProtocol,
            context,
            decoder="three layers on the source's embedding just before the event, the model frozen",
            balance=BALANCE,
            decoder_seeds=self.opt.seeds,
            stopped_by="AUC of the validation events",
        )

    def measure_each(self, context: EvaluationContext) -> Measured[ClassifyResult]:
        from contig.tasks.label_decoding import decode_test_events

        stream, split, inductive = context.data.stream, context.data.split, context.model.inductive
        label = check_labels(stream, split, context.data.test_origin)
        trained, logits = decode_test_events(context, label, self.opt.seeds)
        report = classify_report(stream, split, label, logits, inductive=inductive)
        result = ClassifyResult(
            protocol=self.protocol(context),
            labels=label_parts(split, label),
            validation=_over_seeds(tuple(one.validation for one in trained)),
            transductive=report.transductive,
            inductive=report.inductive,
        )
        probability = (1 / (1 + np.exp(-logits.astype(np.float64)))).mean(axis=0)
        return Measured(result, {"score": logits.mean(axis=0), "probability": probability})

    @classmethod
    def table(cls, results: Mapping[str, ClassifyResult]) -> ResultTable:
        first = next(iter(results.values()))
        counts = [f"{n.positives:,} of {n.events:,} in {part}" for part, n in vars(first.labels).items()]
        seeds, balance = first.protocol.decoder_seeds, first.protocol.balance
        return ResultTable(
            headings=("Test, %", "model", "AUC", "label 1", "events"),
            rows=selection_rows(results, _cells),
            notes=(
                f"label 1: {', '.join(counts)}",
                f"mean and standard deviation over {seeds} decoders; {balance}",
            ),
        )


def _cells(metrics: LabelMetrics) -> tuple[str, ...]:
    auc = percent(metrics.auc)
    deviation = "" if np.isnan(metrics.auc) else f" ± {percent(metrics.auc_std)}"
    return (auc + deviation, count(metrics.positives), count(metrics.events))
