"""Classifying the events of a run, or new ones: fit a classifier once, keep it with the run, and use it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contig.data.clock import LATEST
from contig.data.columns import Array
from contig.data.encoding import FeaturePlans
from contig.data.events import EventStream
from contig.data.read_options import ReadOptions
from contig.data.splits import Split, chronological_split
from contig.data.validation import UNKNOWN_LABEL, EventColumns
from contig.errors import ConfigError, DataError, NoEventsError
from contig.history import History
from contig.models import Model, NodeState
from contig.models.contract import EventBatch
from contig.progress import Display
from contig.runs.answers import Classification
from contig.runs.new_events import check_label_values, labels_in_order, read_new_events
from contig.runs.observed import GrowingStream
from contig.runs.repeated_events import KnownPolicy, Policy, known_policy
from contig.runs.saved_model import unfit
from contig.streaming.walker import Progress, Walker, no_progress
from contig.tasks.calibration import label_quality
from contig.tasks.classify import check_labels, label_parts, labels_of
from contig.tasks.label_classifier import READS, LabelClassifier, LabelInputs
from contig.tasks.label_columns import LabeledEvents, graph_columns, simple_columns
from contig.tasks.selections import check_finite

if TYPE_CHECKING:
    from contig.runs.run import Run

Ints = NDArray[np.int64]

log = logging.getLogger("contig")

FILE = "classifier.pt"
METHOD = 2  # of fitting; raised whenever classifiers that were saved before should be fitted again
PARTS = ("train", "validation", "test")
FINAL_SPLIT = "0.8,0.1"  # the rest chooses and calibrates too


def classify_known(run: Run, *, label_delay: float | None, refit: bool, show: bool | None) -> Classification:
    """Classify the events that the run was trained on; its quality is that of the test events."""
    stream, split = run.trained_stream, decoder_split(run)
    label = _labels(run, split)
    classifier, inputs = _classifier_and_inputs(run, split, label, label_delay, refit, show)
    probability, baseline = classifier.chosen.probability(inputs), classifier.baseline.probability(inputs)
    part = np.full(len(stream), "unused", dtype="U10")
    for name, rows in zip(PARTS, (split.train, split.val, split.test), strict=True):
        part[rows] = name
    test = split.test
    return Classification(
        src=stream.ids.labels[stream.src],
        dst=stream.ids.labels[stream.dst],
        t=stream.t,
        probability=probability,
        baseline=baseline,
        label=np.asarray(stream.label),
        part=part,
        quality=label_quality(probability[test], label[test]) if len(test) else None,
        baseline_quality=label_quality(baseline[test], label[test]) if len(test) else None,
        last_event=_last_known(stream.t, stream.t),
        decoder=classifier.chosen.name,
        validation_aucs=dict(classifier.validation_aucs),
        fitted_on=label_parts(split, label),
        test_events=len(run.split.test),
        label_delay=classifier.delay,
        dates=run.dates,
    )


def _classifier_and_inputs(
    run: Run,
    split: Split,
    label: NDArray[np.bool_],
    label_delay: float | None,
    refit: bool,
    show: bool | None,
) -> tuple[LabelClassifier, LabelInputs]:
    """Return the saved classifier, or fit one, and what it reads of the run's own events."""
    saved = None if refit else load_classifier(run, label_delay)
    delay = _delay(label_delay) if saved is None else saved.delay
    if saved is None:
        _check_known_in_time(run.trained_stream, split, delay)
    with Display(show) as display:
        with display.bar("embedding", len(run.trained_stream)) as progress:
            inputs, names = _known_inputs(run, split, delay, progress)
        return saved or _fitted(run, inputs, names, label, split, delay, display), inputs


def classify_new(
    run: Run,
    events: Any,
    reading: ReadOptions,
    *,
    repeated: KnownPolicy = "reject",
    label_delay: float | None,
    refit: bool,
    show: bool | None,
) -> Classification:
    """Classify new events in time order, each from what came before it; the run does not change."""
    run.require_finished("it can classify events")
    labels_of(run.trained_stream)
    try:
        table = read_new_events(events, reading, run.features, usual=run.read_as, with_labels=True)
    except NoEventsError as error:
        found = _empty_classification(run, load_classifier(run, label_delay))
        log.warning(f"{error.problem}; nothing is classified.")
        return found
    check_label_values(table.columns, np.array([0, 1]), table.place)
    columns, place = run.without_known(table, repeated)
    policy = known_policy(repeated)
    # Before a classifier is fitted, which may take minutes.
    GrowingStream(run.arrivals, run.history).reject_older(columns, place, repeated=policy)
    saved = _classifier(run, label_delay, refit, show)
    with run.online.reading(), Display(show) as display, display.bar("embedding", len(columns.t)) as progress:
        inputs, new = _new_inputs(run, columns, place, policy, saved, progress)
    order = np.argsort(columns.t, kind="stable")
    probability, baseline = (np.empty(len(order)) for _ in range(2))
    probability[order] = saved.chosen.probability(inputs)
    baseline[order] = saved.baseline.probability(inputs)
    src, dst = (np.empty(len(order), dtype=new.names.dtype) for _ in range(2))
    src[order], dst[order] = new.names[new.src], new.names[new.dst]
    known = np.zeros(0, np.int64) if columns.label is None else np.flatnonzero(columns.label != UNKNOWN_LABEL)
    truth = None if columns.label is None else columns.label[known] == 1
    return replace(
        _empty_classification(run, saved),
        src=src,
        dst=dst,
        t=columns.t,
        probability=probability,
        baseline=baseline,
        label=columns.label,
        quality=None if truth is None else label_quality(probability[known], truth),
        baseline_quality=None if truth is None else label_quality(baseline[known], truth),
        last_event=_last_known(new.t, columns.t),
    )


def _classifier(run: Run, label_delay: float | None, refit: bool, show: bool | None) -> LabelClassifier:
    """Return the saved classifier, or fit one."""
    saved = None if refit else load_classifier(run, label_delay)
    if saved is None:
        split = decoder_split(run)
        saved, _ = _classifier_and_inputs(run, split, _labels(run, split), label_delay, refit, show)
    return saved


def _empty_classification(run: Run, classifier: LabelClassifier | None) -> Classification:
    """Return a classification without events, the columns of which may be replaced."""
    labels, t, split = run.stream.ids.labels[:0], run.stream.t[:0], decoder_split(run)
    return Classification(
        src=labels,
        dst=labels,
        t=t,
        probability=np.empty(0),
        baseline=np.empty(0),
        label=np.empty(0, np.int64),
        part=None,
        quality=None,
        baseline_quality=None,
        last_event=np.ma.masked_array(t),
        decoder=classifier.chosen.name if classifier else "none",
        validation_aucs=dict(classifier.validation_aucs) if classifier else {},
        fitted_on=label_parts(split, _labels(run, split)),
        test_events=None,
        label_delay=classifier.delay if classifier else 0.0,
        dates=run.dates,
    )


# --- the classifier of a run -------------------------------------------------------------------------


def load_classifier(run: Run, label_delay: float | None) -> LabelClassifier | None:
    """Return the classifier that is saved with the run; None if there is none for these weights and delay.

    One that was fitted by an earlier method is not used either.
    """
    if not run.folder.has(FILE):
        return None
    content = run.folder.load(FILE)
    classifier = LabelClassifier.from_content(
        content, lambda reason: unfit(run.path / FILE, reason, "Delete it to fit a new classifier.")
    )
    current = (content.get("serving"), content.get("method")) == (run.served_version, METHOD)
    return classifier if current and label_delay in (None, classifier.delay) else None


def _fitted(
    run: Run,
    inputs: LabelInputs,
    names: tuple[str, ...],
    label: NDArray[np.bool_],
    split: Split,
    delay: float,
    display: Display,
) -> LabelClassifier:
    with display.bar("decoders", len(READS)) as progress:
        classifier = LabelClassifier.fit(inputs, names, label, split, delay, progress)
    with run.folder.locked(wait=True):  # minutes of fitting are not lost because another process writes
        run.check_served_version()
        run.folder.save(FILE, {**classifier.content(), "serving": run.served_version, "method": METHOD})
    return classifier


def decoder_split(run: Run) -> Split:
    """Return the split that a classifier is fitted on: the run's, unless that learned from every event.

    Then the last events choose and calibrate the classifier, and none are left to test it on. Events whose
    label is not known are in no part.
    """
    split = run.split
    if split.final:
        split = chronological_split(run.trained_stream, FINAL_SPLIT, holdout="none")
        split = replace(split, val=np.concatenate([split.val, split.test]), test=split.test[:0], final=True)
    label = run.trained_stream.label
    if label is None:
        return split
    train, val, test = (_known(part, label) for part in (split.train, split.val, split.test))
    return replace(split, train=train, val=val, test=test)


def _known(rows: Ints, label: Ints) -> Ints:
    kept: Ints = rows[label[rows] != UNKNOWN_LABEL]
    return kept


def _labels(run: Run, split: Split) -> NDArray[np.bool_]:
    """Return the labels that a classifier learns from; those of test events may all be equal."""
    run.require_finished("it can classify events")
    stream = run.trained_stream
    if stream.label is not None:
        known = stream.label != UNKNOWN_LABEL
        if not known.any():
            raise DataError(
                f"{stream.origin}: none of the {len(stream):,} events has a label. Train a run on events "
                "with labels, or name another column with label=... (--label COLUMN)."
            )
        stream = replace(stream, label=np.where(known, stream.label, 0))  # unknown ones are in no part
    return check_labels(stream, replace(split, test=split.test[:0]))


def _delay(given: float | None) -> float:
    delay = 0.0 if given is None else given
    if isinstance(delay, bool) or not isinstance(delay, int | float) or not 0 <= delay < LATEST:
        raise ConfigError(
            f"label_delay={given!r}: pass a number of at least 0 and below 2^62, in the unit of the times."
        )
    return float(delay)


def _check_known_in_time(stream: EventStream, split: Split, delay: float) -> None:
    """Raise if no label of the training part becomes known before its end, as with a wrong unit."""
    first, last = stream.t[split.train[[0, -1]]].tolist()
    if 0 < last - first <= delay:
        raise ConfigError(
            f"label_delay={delay:g}: no label of the training part would be known before its end: it spans "
            f"{last - first:,} in the unit of the times. Pass a shorter delay (--label-delay)."
        )


# --- what a classifier reads -------------------------------------------------------------------------


def _known_inputs(
    run: Run, split: Split, delay: float, progress: Progress
) -> tuple[LabelInputs, tuple[str, ...]]:
    stream, history = run.trained_stream, run.trained_history
    state = run.model.new_state(stream.num_nodes, on_host=history.on_host)
    everything = np.arange(len(stream))
    found = _read(run.model, state, history, run.batch_size, everything, progress)
    check_finite(stream, everything, found)
    label = np.asarray(stream.label)
    events = _labeled(stream, label, run.features, split.train)
    return _inputs(events, everything, delay, found)


class _NewNodes(NamedTuple):
    """New events by internal ids, the names of all nodes and the times of all events."""

    src: Ints
    dst: Ints
    names: Array
    t: Array  # of all events, those that the run knows and the new ones


def _new_inputs(
    run: Run,
    columns: EventColumns,
    place: Callable[[int], str],
    repeated: Policy,
    classifier: LabelClassifier,
    progress: Progress,
) -> tuple[LabelInputs, _NewNodes]:
    """Return what is known about new events just before each of them, in time order."""
    new = GrowingStream(run.arrivals, run.history).check(columns, place, repeated=repeated)
    arrivals = run.arrivals.extended(new)
    grown = arrivals.stream
    first = torch.tensor(new.t[0].item(), dtype=run.history.events["t"].dtype, device=run.history.device)
    with run.online.at(first) as before:
        state = before.clone()
    state.grow(grown.num_nodes)
    rows = np.arange(len(run.arrivals), len(grown))
    walked = np.setdiff1d(np.arange(state.position, len(grown)), arrivals.late)
    history = arrivals.index(run.model, state)
    found = _read(run.model, state, history, run.batch_size, walked, progress)
    found = found[len(walked) - len(rows) :]
    check_finite(grown, rows, found)
    label = np.concatenate([np.asarray(run.arrived_labels), labels_in_order(columns)])
    events = _labeled(grown, label, run.features, decoder_split(run).train)
    inputs, names = _inputs(events, rows, classifier.delay, found)
    if names != classifier.columns:
        raise unfit(run.path / FILE, "its columns are others", "Fit it again: --refit (refit=True).")
    return inputs, _NewNodes(new.src, new.dst, grown.ids.labels, grown.t)


def _last_known(t: Array, at: Array) -> np.ma.MaskedArray[Any, Any]:
    """Return the time of the last event strictly before each of some times."""
    known = np.searchsorted(t, at, side="left")
    return np.ma.masked_array(t[np.maximum(known - 1, 0)], mask=known == 0)


def _inputs(
    events: LabeledEvents, rows: Ints, delay: float, found: NDArray[np.float32]
) -> tuple[LabelInputs, tuple[str, ...]]:
    """Join the columns of events with the model's score and embeddings, ``found``."""
    simple, graph = simple_columns(events, rows, delay), graph_columns(events, rows, delay)
    inputs = LabelInputs(simple.values, np.concatenate([graph.values, found[:, :1]], axis=1), found[:, 1:])
    return inputs, (*simple.names, *graph.names, "score of the pair")


def _labeled(stream: EventStream, label: Ints, plans: FeaturePlans | None, train: Ints) -> LabeledEvents:
    """Return events with standardized features, by the training part where there is no plan."""
    features = stream.edge_features
    if features is None:
        features = np.zeros((len(stream), 0), np.float32)
    plan = None if plans is None else plans.events
    if plan is not None:
        names, numeric = plan.outputs, plan.numeric
    else:
        names, numeric = tuple(f"f{i}" for i in range(features.shape[1])), np.arange(features.shape[1])
        spread = features[train].std(axis=0)
        features = (features - features[train].mean(axis=0)) / np.where(spread > 1e-6, spread, np.inf)
    return LabeledEvents(stream.src, stream.dst, stream.t, label, features, names, numeric)


@torch.no_grad()
def _read(
    model: Model,
    state: NodeState,
    history: History,
    batch_size: int,
    events: Ints,
    progress: Progress = no_progress,
) -> NDArray[np.float32]:
    """Return the score of each event and the embeddings of both ends just before it, ``[events, 1 + 2 d]``.

    A heuristic has no embeddings.
    """
    own_link = type(model).link is not Model.link

    def read(batch: EventBatch) -> Tensor:
        src, dst, t = batch.src, batch.dst, batch.t
        if not model.learns:
            return model.link(state, history, src, dst.unsqueeze(1), t, t[0]).float()
        both = model.embed(state, history, torch.cat([src, dst]), t.repeat(2), t[0])
        ours, theirs = both[: len(src)], both[len(src) :]
        score = model.score(ours, theirs)
        if own_link:
            score = model.link(state, history, src, dst.unsqueeze(1), t, t[0]).squeeze(1)
        return torch.cat([score.unsqueeze(1), ours, theirs], dim=1).float()

    walker = Walker(model, state, history, batch_size, read, capacity=len(events))
    return walker.read_all(events, progress)
