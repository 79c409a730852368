"""Comparisons of means, and power laws against scipy's regression."""

from __future__ import annotations

from math import isnan, nan

import numpy as np
import pytest
from scipy.stats import linregress

from contig.experiments.rows import Spread
from contig.reproduction.stats import compare, fit_power_law

SIZES = [20_000, 50_000, 100_000, 200_000, 400_000]


@pytest.mark.parametrize(
    ("value", "reference", "direction"),
    [
        ((90.0, 0.5), (90.9, 0.5), "even"),
        ((90.0, 0.5), (91.1, 0.5), "down"),
        ((91.1, nan), (91.0, nan), "up"),
        ((90.0, nan), (90.0, nan), "even"),
        ((nan, nan), (90.0, nan), ""),
    ],
)
def test_compare(value: tuple[float, float], reference: tuple[float, float], direction: str) -> None:
    assert compare(Spread(*value), Spread(*reference)) == direction


@pytest.mark.parametrize(("factor", "exponent"), [(3e-5, 1.0), (0.2, 1.37), (40.0, -0.5)])
def test_a_known_power_law_is_recovered(factor: float, exponent: float) -> None:
    law = fit_power_law(SIZES, [factor * size**exponent for size in SIZES])
    assert law is not None
    assert law == pytest.approx((factor, exponent, 0.0), abs=1e-9)
    assert law(3000.0) == pytest.approx(factor * 3000**exponent)


def test_a_noisy_power_law_has_a_standard_error() -> None:
    costs = np.array(SIZES) ** 1.1 * np.random.default_rng(3).lognormal(0.0, 0.2, len(SIZES))
    law, known = fit_power_law(SIZES, costs.tolist()), linregress(np.log(SIZES), np.log(costs))
    assert law is not None
    assert law.exponent == pytest.approx(known.slope)
    assert law.error == pytest.approx(known.stderr)
    assert np.log(law.factor) == pytest.approx(known.intercept)


def test_a_power_law_needs_two_sizes_and_its_error_three() -> None:
    assert fit_power_law([5.0], [1.0]) is None
    assert fit_power_law([5.0, 5.0], [1.0, 2.0]) is None
    two = fit_power_law([1.0, 4.0], [3.0, 6.0])
    assert two is not None
    assert two.exponent == pytest.approx(0.5)
    assert isnan(two.error)
