"""Hints about a training that its metrics alone do not give."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from contig.data.events import EventStream
from contig.data.repeated_rows import repeated_rows
from contig.data.splits import Split
from contig.data.validation import UNKNOWN_LABEL
from contig.models import HEURISTIC_BASELINE
from contig.runs.config import RunConfig, build_model
from contig.tasks.link import link_report
from contig.tasks.link_negatives import draw_negatives
from contig.tasks.link_scoring import LinkScorer, pairs_of
from contig.training.session import Session
from contig.wording import counted

FEW_STEPS = 50  # an epoch with fewer learns too little
BATCH_SIZES = (100, 50, 20, 10, 5)
REPEATED_SHARE = 0.01  # of the rows; of public streams 0 to 0.06% are repeated, but 70% of Enron's mails


def before_training(session: Session) -> Iterator[str]:
    """Report how the events are split, and what makes the training part hard to learn from."""
    split, size = session.data.split, session.config.train.batch_size
    yield _describe_split(split)
    if not session.model.learns:
        return
    yield from _on_labels(session.data.stream, split)
    events, steps = len(split.train), len(session.steps)
    if session.data.time_scale.count == 0:
        yield (
            "no node has training events at two different times: the model's unit of time is taken from the "
            "intervals of the stream as a whole, and little can be learned from how long ago events were"
        )
    smaller = _smaller_batches(session)
    if steps < FEW_STEPS and smaller:
        count = counted(steps, "step")
        yield (
            f"an epoch has only {count} ({events:,} training events in batches of {size:,}); "
            f"on a stream this short try batch_size={smaller} (contig train --set batch_size={smaller})"
        )


def _on_labels(stream: EventStream, split: Split) -> Iterator[str]:
    """Report labels from which no classifier can learn later."""
    if stream.label is None or stream.benchmark or isinstance(stream.label, np.memmap):
        return  # an index is too large to be read for this
    values = np.unique(stream.label)
    if wrong := [value for value in values.tolist() if value not in (0, 1, UNKNOWN_LABEL)]:
        yield (
            f"the labels have the value {wrong[0]}; contig classify needs 1 for the positive class and 0 for "
            "everything else, or no value where the label is not known"
        )
        return
    parts = {"training": split.train, "validation": split.val}
    for name, events in parts.items():
        known = np.unique(stream.label[events])
        if len(events) and len(known := known[known != UNKNOWN_LABEL]) < 2:
            which = f"only the label {known[0]}" if len(known) else "no label"
            yield f"the {name} events have {which}: contig classify needs some with 0 and some with 1"
            return


def on_repeated_rows(stream: EventStream) -> Iterator[str]:
    """Report that many events repeat an earlier one in every column, as if an export had written them twice.

    Nothing is said about known datasets, which are used as they were published.
    """
    rows = None if stream.benchmark else repeated_rows(stream)
    if rows is None or rows <= REPEATED_SHARE * len(stream):
        return
    verb = "repeats" if rows == 1 else "repeat"
    yield (
        f"{stream.origin}: {rows:,} of {counted(len(stream), 'event')} ({rows / len(stream):.1%}) {verb} the "
        "source, destination, time and features of an earlier one, and count as events of their own. If an "
        "export wrote them twice, drop them before training: frame.drop_duplicates([...]) of pandas, or "
        "frame.unique([...], maintain_order=True) of polars, with the names of these columns"
    )


def _describe_split(split: Split) -> str:
    """Say in one line what is held back from training."""
    events = len(split.train)
    if split.final:
        return f"training on all {events:,} events; none is held back for validation and test"
    parts = (
        f"training on {events:,} events, validation on {len(split.val):,}, test on {len(split.test):,} "
        f"({split.description})"
    )
    if not split.hidden_events:
        return f"{parts}; no node is hidden from training"
    return (
        f"{parts}; holdout={split.holdout} hides {split.hidden_events:,} of "
        f"{events + split.hidden_events:,} training events, those of nodes held out as unseen (holdout=none "
        "hides none)"
    )


def after_training(session: Session) -> Iterator[str]:
    """Report a heuristic baseline that is better on the validation events."""
    if session.data.split.final:
        return
    progress = session.progress
    baseline, learned = baseline_ap(session), progress.log[progress.best_epoch - 1].val_ap
    if baseline <= learned:
        return
    smaller = _smaller_batches(session)
    batches = f"smaller batches (batch_size={smaller}), " if smaller else ""
    yield (
        f"the heuristic {HEURISTIC_BASELINE} reaches a validation AP of {100 * baseline:.2f}, "
        f"{session.config.model} only {100 * learned:.2f}; try {batches}more epochs and more patience"
    )


def baseline_ap(session: Session) -> float:
    """Compute a heuristic's AP on the events and negatives by which the best epoch is chosen."""
    data, size = session.data, session.config.train.batch_size
    model = build_model(RunConfig.of(HEURISTIC_BASELINE), data.stream).to(data.device)
    negatives = draw_negatives(data.stream, data.split, data.split.val)
    scorer = LinkScorer(model, model.new_state(data.stream.num_nodes), data.history, size)
    scores = scorer(data.split.val, pairs_of(negatives.ours, data.device))
    report = link_report(
        data.stream, data.split, data.split.val, scores, size, inductive=session.model.inductive
    )
    return report.transductive.ap


def _smaller_batches(session: Session) -> int | None:
    """Return the largest common batch size that gives enough steps; else the smallest."""
    usual = [size for size in BATCH_SIZES if size < session.config.train.batch_size]
    enough = [size for size in usual if len(session.data.split.train) >= FEW_STEPS * size]
    return next(iter(enough or usual[-1:]), None)
