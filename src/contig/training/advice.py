"""What a person should know about a training besides its numbers."""

from __future__ import annotations

from collections.abc import Iterator

from contig.models import YARDSTICK
from contig.runs.config import RunConfig, build_model
from contig.tasks.link import LinkScorer, evaluation_negatives, link_report
from contig.training.session import Session

FEW_STEPS = 50  # an epoch with fewer teaches too little to tell it from the next
BATCH_SIZES = (100, 50, 20, 10, 5)


def before_training(session: Session) -> Iterator[str]:
    """What is hidden from the training, and whether its steps are too few."""
    split, size = session.data.split, session.config.train.batch_size
    early, events, steps = int(split.val[0]), len(split.train), len(session.steps)
    if events < early:
        yield (
            f"holdout={split.holdout} hides {early - events:,} of {early:,} training events, those "
            "of nodes held out as unseen; holdout=paper hides none"
        )
    smaller = _smaller_batches(session)
    if steps < FEW_STEPS and smaller:
        yield (
            f"an epoch has only {steps} steps ({events:,} training events in batches of {size:,}); "
            f"on a stream this short try batch_size={smaller}"
        )


def after_training(session: Session) -> Iterator[str]:
    """Whether a rule that learns nothing is better on the validation events."""
    easy, learned = yardstick(session), session.progress.best_ap
    if easy <= learned:
        return
    smaller = _smaller_batches(session)
    batches = f"smaller batches (batch_size={smaller}), " if smaller else ""
    yield (
        f"{YARDSTICK}, which learns nothing, has a validation AP of {100 * easy:.2f} and "
        f"{session.config.model} {100 * learned:.2f}; try {batches}more epochs and more patience"
    )


def yardstick(session: Session) -> float:
    """The rule's validation AP, on the events and negatives by which the best epoch is chosen."""
    data, size = session.data, session.config.train.batch_size
    rule = build_model(RunConfig.of(YARDSTICK), data.stream).to(data.device)
    negative = evaluation_negatives(data.stream, data.split, data.split.val, "random", data.device)
    scores = LinkScorer(rule, rule.new_state(data.stream.num_nodes), data.history, size)(
        data.split.val, negative
    )
    report = link_report(
        data.stream, data.split, data.split.val, scores, size, inductive=session.model.inductive
    )
    return float(report["transductive"]["ap"])


def _smaller_batches(session: Session) -> int | None:
    """The largest usual size below the training's that makes an epoch long enough; else the smallest."""
    usual = [size for size in BATCH_SIZES if size < session.config.train.batch_size]
    enough = [size for size in usual if len(session.data.split.train) >= FEW_STEPS * size]
    return next(iter(enough or usual[-1:]), None)
