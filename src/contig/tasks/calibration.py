"""Probabilities from logits, and how far they can be trusted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contig.schema import Record
from contig.tasks.metrics import area_under_curve, average_precision

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

BINS = 15
STEPS = 50
PENALTY = 1e-4  # keeps the slope finite where validation events are separated perfectly


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelQuality(Record):
    """How good probabilities of label 1 are; NaN where all labels are equal.

    ``calibration_error`` is the expected calibration error: the mean distance between probability and share
    of label 1 over 15 bins with equally many events. ``brier`` is the mean squared error.
    """

    events: int
    positives: int
    ap: float = np.nan
    auc: float = np.nan
    calibration_error: float = np.nan
    brier: float = np.nan


@dataclass(frozen=True)
class Calibration:
    """A logistic curve: the probability is that of ``slope * logit + shift`` (Platt, 1999)."""

    slope: float
    shift: float

    @classmethod
    def fit(cls, logits: Floats, label: Flags) -> Calibration:
        """Fit the curve by maximum likelihood, with Newton's method."""
        center, scale = float(logits.mean()), float(logits.std()) or 1.0
        x = np.stack([(logits - center) / scale, np.ones_like(logits)], axis=1)
        rate = np.clip(label.mean(), 1e-6, 1 - 1e-6)
        weights = np.array([0.0, np.log(rate / (1 - rate))])
        damping = PENALTY * np.diag([1.0, 0.0])
        for _ in range(STEPS):
            p = _sigmoid(x @ weights)
            gradient = x.T @ (p - label) / len(x) + damping @ weights
            curvature = (x * (p * (1 - p))[:, None]).T @ x / len(x) + damping + 1e-9 * np.eye(2)
            step = np.linalg.solve(curvature, gradient)
            weights = weights - np.clip(step, -2.0, 2.0)
            if np.abs(step).max() < 1e-10:
                break
        slope = max(float(weights[0]), 0.0) / scale  # a higher logit never means a lower probability
        return cls(slope, float(weights[1]) - slope * center)

    def probability(self, logits: Floats) -> Floats:
        return _sigmoid(self.slope * logits + self.shift)


def label_quality(probability: Floats, label: Flags) -> LabelQuality:
    """Measure probabilities of label 1."""
    events, positives = len(label), int(label.sum())
    if positives in (0, events):
        return LabelQuality(events=events, positives=positives)
    scores = probability.astype(np.float64)
    return LabelQuality(
        events=events,
        positives=positives,
        ap=average_precision(scores[label], scores[~label]),
        auc=area_under_curve(scores[label], scores[~label]),
        calibration_error=calibration_error(scores, label),
        brier=float(np.mean((scores - label) ** 2)),
    )


def calibration_error(probability: Floats, label: Flags) -> float:
    """Return the expected calibration error over bins with equally many events."""
    order = np.argsort(probability, kind="stable")
    bins = [part for part in np.array_split(order, BINS) if len(part)]
    gaps = [abs(probability[part].mean() - label[part].mean()) * len(part) for part in bins]
    return float(np.sum(gaps) / len(label))


def _sigmoid(x: Floats) -> Floats:
    return np.exp(-np.logaddexp(0.0, -x))
