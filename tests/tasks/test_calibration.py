"""Calibration against the equations that define it, and its figures against definitions written out."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, brier_score_loss, roc_auc_score

from contig.tasks.calibration import BINS, PENALTY, Calibration, calibration_error, label_quality


@pytest.fixture(scope="module")
def drawn() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    logits = rng.normal(3, 5, 4000)  # twice as sure as they should be, and shifted
    return logits, rng.random(4000) < 1 / (1 + np.exp(-(0.5 * logits - 3)))


def test_the_curve_solves_the_equations_of_the_maximum_likelihood(drawn) -> None:
    """The mean probability is the share of label 1, and the residual has no trend, up to the damping."""
    logits, label = drawn
    found = Calibration.fit(logits, label)
    residual = found.probability(logits) - label
    standard = (logits - logits.mean()) / logits.std()
    assert residual.mean() == pytest.approx(0, abs=1e-7)
    assert (residual * standard).mean() == pytest.approx(-PENALTY * found.slope * logits.std(), abs=1e-7)
    assert (found.slope, found.shift) == (pytest.approx(0.5, abs=0.05), pytest.approx(-3, abs=0.3))


def rare_positives(positives: int, distance: float) -> tuple[np.ndarray, np.ndarray]:
    """1,200 logits as of trees: most are close together; positives and a few others are spread above them."""
    rng = np.random.default_rng(positives)
    label = np.arange(1200) < positives
    logits = rng.normal(-7, 0.5, 1200)
    logits[label] = rng.normal(distance - 7, distance / 3, positives)
    logits[-30:] += rng.uniform(0, distance, 30)
    return logits, label


@pytest.mark.parametrize("positives", [2, 7, 25, 32])
@pytest.mark.parametrize("distance", [0.3, 2.0, 9.0, 60.0])
@pytest.mark.parametrize("unit", [1.0, 1e-3, 1e3])
def test_the_ranking_survives_calibration(positives: int, distance: float, unit: float) -> None:
    """Also where few positives are far from the rest: Newton's method without a line search fails there."""
    logits, label = rare_positives(positives, distance)
    found = Calibration.fit(unit * logits, label).probability(unit * logits)
    assert roc_auc_score(label, found) == pytest.approx(roc_auc_score(label, logits), abs=1e-6)
    assert found.mean() == pytest.approx(positives / 1200, rel=1e-3)


def test_an_outlier_does_not_reverse_or_flatten_the_ranking() -> None:
    """The mean logit of the negatives is the higher one, and the most likely curve falls."""
    logits, label = rare_positives(25, 9.0)
    logits[-1] = 1e6
    found = Calibration.fit(logits, label).probability(logits)
    assert roc_auc_score(label, found) == pytest.approx(roc_auc_score(label, logits), abs=1e-6)
    assert found.mean() == pytest.approx(25 / 1200, rel=0.02)


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
    assert found.slope > 0  # the order is kept
    if sign < 0:
        np.testing.assert_allclose(found.probability(-np.arange(60.0)), 1 / 3, atol=2e-3)
    constant = Calibration.fit(np.full(60, 7.0), label).probability(np.full(1, 7.0))
    assert constant[0] == pytest.approx(1 / 3, abs=1e-3)


def test_the_rounding_of_equal_logits_is_no_signal() -> None:
    """Logits that differ by one unit in the last place of float32, aligned with the labels."""
    label = np.arange(60) >= 40
    low, high = np.float32(3.3), np.nextafter(np.float32(3.3), np.float32(4))
    found = Calibration.fit(np.where(label, high, low).astype(np.float64), label)
    assert found.slope < 1
    np.testing.assert_allclose(found.probability(np.array([low, high], np.float64)), 1 / 3, atol=1e-3)


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
