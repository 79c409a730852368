"""Calibration against scikit-learn, and its figures against definitions written out."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, brier_score_loss, roc_auc_score

from contig.tasks.calibration import BINS, Calibration, calibration_error, label_quality


@pytest.fixture(scope="module")
def drawn() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    logits = rng.normal(3, 5, 4000)  # twice as sure as they should be, and shifted
    return logits, rng.random(4000) < 1 / (1 + np.exp(-(0.5 * logits - 3)))


def test_the_curve_is_that_of_logistic_regression(drawn) -> None:
    logits, label = drawn
    found = Calibration.fit(logits, label)
    expected = LogisticRegression(C=np.inf).fit(logits[:, None], label)
    assert found.slope == pytest.approx(expected.coef_[0, 0], rel=0.02)  # ours is damped a little
    assert found.shift == pytest.approx(expected.intercept_[0], rel=0.02)
    assert (found.slope, found.shift) == (pytest.approx(0.5, abs=0.05), pytest.approx(-3, abs=0.3))


def test_calibrated_probabilities_are_closer_to_the_truth(drawn) -> None:
    logits, label = drawn
    raw = 1 / (1 + np.exp(-logits))
    calibrated = Calibration.fit(logits[:2000], label[:2000]).probability(logits[2000:])
    assert calibration_error(calibrated, label[2000:]) < 0.03 < calibration_error(raw[2000:], label[2000:])


@pytest.mark.parametrize("sign", [1, -1])
def test_separated_and_useless_logits_give_finite_curves(sign: int) -> None:
    label = np.arange(60) >= 40
    found = Calibration.fit(sign * np.arange(60.0), label)
    assert np.isfinite([found.slope, found.shift]).all()
    assert found.slope >= 0  # the order is kept
    constant = Calibration.fit(np.full(60, 7.0), label).probability(np.full(1, 7.0))
    assert constant[0] == pytest.approx(1 / 3, abs=1e-3)


def test_figures_are_those_of_their_definitions(drawn) -> None:
    logits, label = drawn
    p = np.round(1 / (1 + np.exp(-logits)), 2)  # with ties
    found = label_quality(p, label)
    assert (found.events, found.positives) == (4000, int(label.sum()))
    assert found.auc == pytest.approx(roc_auc_score(label, p))
    assert found.ap == pytest.approx(average_precision_score(label, p))
    assert found.brier == pytest.approx(brier_score_loss(label, p))
    gap = 0.0
    for part in np.array_split(np.argsort(p, kind="stable"), BINS):
        gap += len(part) / len(p) * abs(p[part].mean() - label[part].mean())
    assert found.calibration_error == pytest.approx(gap)


def test_equal_labels_are_only_counted() -> None:
    found = label_quality(np.array([0.1, 0.2]), np.array([False, False]))
    assert (found.events, found.positives) == (2, 0)
    assert np.isnan([found.auc, found.ap, found.brier, found.calibration_error]).all()
