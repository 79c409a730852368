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
STEPS = 200  # at most; usually about ten are needed
PENALTY = 1e-4  # keeps the slope finite where validation events are separated perfectly
FLATTEST = 1e-3  # smallest slope, per standard deviation of the logits
CONSTANT = 1e-6  # relative spread below which logits are equal; above the rounding of float32


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
    """A logistic curve: the probability is that of ``slope * logit + shift`` (Platt, 1999).

    The slope is positive, so that probabilities rank events as their logits do.
    """

    slope: float
    shift: float

    @classmethod
    def fit(cls, logits: Floats, label: Flags) -> Calibration:
        """Fit the curve by maximum likelihood; there must be both labels.

        Where higher logits do not go with label 1, the curve is almost flat: every probability is close to
        the share of label 1.
        """
        center, spread = float(logits.mean()), float(logits.std())
        scale = spread if spread > CONSTANT * max(1.0, abs(center)) else 1.0
        slope, height = _most_likely_curve((logits - center) / scale, label)
        if slope < FLATTEST:
            share = float(label.mean())
            slope, height = FLATTEST, float(np.log(share / (1 - share)))
        return cls(slope / scale, height - slope / scale * center)

    def probability(self, logits: Floats) -> Floats:
        return _sigmoid(self.slope * logits + self.shift)


def _most_likely_curve(x: Floats, label: Flags) -> tuple[float, float]:
    """Return the slope and the height at 0 of the most likely logistic curve.

    A plain Newton's method fails where rare positives are far from the rest: its steps overshoot.
    """
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=1 / (PENALTY * len(x)), solver="newton-cholesky", tol=1e-9, max_iter=STEPS)
    model.fit(x[:, None], label)
    return float(model.coef_[0, 0]), float(model.intercept_[0])


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
