"""Warnings about predicted labels: why probabilities may be of little use, and what to do."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from contig.tasks.calibration import LabelQuality
from contig.tasks.classify import LabelParts
from contig.wording import counted

EQUAL = 0.05  # range of log-odds within which probabilities count as equal
MANY = 20  # events; fewer may be equal by chance
CHANCE = 0.55  # AUC up to which the labels count as unpredictable
FEW = 10  # events of the rarer label; an AUC of fewer is mostly noise
CURE = "Train a run on more events with label 1, or on columns that say more about them (--features)."


def equal_probabilities(
    probability: NDArray[np.float64], validation_auc: float, labels: LabelParts
) -> str | None:
    """Return a warning if the probabilities are nearly equal."""
    if len(probability) < MANY:
        return None
    low, high = float(probability.min()), float(probability.max())
    if _log_odds(high) - _log_odds(low) > EQUAL:
        return None
    found = f"All {len(probability):,} probabilities are nearly equal ({low:.3g} to {high:.3g})"
    auc = f"validation AUC {100 * validation_auc:.2f}"
    if validation_auc > CHANCE:
        return (
            f"{found}, although the classifier ranks the validation events ({auc}): these events look alike "
            "to it, or its logits say little about probabilities. Rely on the order alone."
        )
    train = labels.train
    return (
        f"{found}: nothing that is known before an event predicts its label ({auc}; {train.positives:,} of "
        f"{train.events:,} training events have label 1). {CURE}"
    )


def no_better_than_chance(quality: LabelQuality | None) -> str | None:
    """Return a warning if the probabilities rank the measured events hardly better than chance.

    An AUC of few events of the rarer label says nothing about the classifier.
    """
    if quality is None or not quality.auc <= CHANCE:
        return None
    if min(quality.positives, quality.events - quality.positives) < FEW:
        return None
    return (
        f"The classifier ranks these events hardly better than chance (AUC {100 * quality.auc:.2f}): do not "
        f"rely on its probabilities. {CURE}"
    )


def loses_to_baseline(quality: LabelQuality | None, baseline: LabelQuality | None, events: str) -> str | None:
    """Return a warning if the baseline ranks the measured events better; ``events`` says which they are."""
    if quality is None or baseline is None or not quality.auc < baseline.auc:
        return None
    ours, theirs = 100 * quality.auc, 100 * baseline.auc
    rare = min(quality.positives, quality.events - quality.positives)
    few = f", with only {counted(rare, 'event')} of the rarer label" if rare < FEW else ""
    return (
        f"The classifier loses to the baseline by {theirs - ours:.2f} points of AUC on the {events} events "
        f"({ours:.2f} against {theirs:.2f}{few}). The column baseline has the probabilities of the baseline."
    )


def no_test_labels(test_events: int, labels: LabelParts) -> str | None:
    """Return a warning if there are test events, but none with a label."""
    if not test_events or labels.test.events:
        return None
    return (
        f"No test event has a label (0 of {test_events:,}), so that the quality of these probabilities was "
        "not measured. Add labels, or use other parts (contig train --split)."
    )


def few_labels(labels: LabelParts) -> str | None:
    """Return a warning if a part of the stream has too few events of the rarer label."""
    rare = {
        name: min(part.positives, part.events - part.positives)
        for name, part in vars(labels).items()
        if part.events
    }
    if min(rare.values()) >= FEW:
        return None
    counts = ", ".join(f"{count:,} in {name}" for name, count in rare.items())
    return (
        f"Few events have the rarer label ({counts}), so that figures and probabilities are uncertain. Use "
        "more events, or other parts (contig train --split)."
    )


def _log_odds(probability: float) -> float:
    bounded = min(max(probability, 1e-12), 1 - 1e-12)
    return float(np.log(bounded / (1 - bounded)))
