"""The statistics of a reproduction: comparing two means, and fitting a power law."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, isnan, nan
from typing import Literal, NamedTuple

import numpy as np

from contig.experiments.rows import Spread

MISSING = Spread(nan, nan)
Direction = Literal["up", "down", "even", ""]


def compare(value: Spread, reference: Spread) -> Direction:
    """Say whether ``value`` is above or below ``reference``.

    They are even unless the means are further apart than the sum of the two standard deviations; an unknown
    deviation counts as 0. The answer is empty where either mean is unknown.
    """
    difference = value.mean - reference.mean
    if isnan(difference):
        return ""
    tolerance = sum(0.0 if isnan(spread.std) else spread.std for spread in (value, reference))
    return "even" if abs(difference) <= tolerance else "up" if difference > 0 else "down"


def percent(share: Spread) -> Spread:
    """Convert a share to percent."""
    return Spread(100 * share.mean, 100 * share.std)


def exact(number: float) -> Spread:
    """Wrap a number that has no standard deviation."""
    return Spread(number, nan)


class PowerLaw(NamedTuple):
    """``cost = factor * size ** exponent``."""

    factor: float
    exponent: float
    error: float  # standard error of the exponent; NaN for two points, which any line fits

    def __call__(self, size: float) -> float:
        return float(self.factor * size**self.exponent)


def fit_power_law(sizes: Sequence[float], costs: Sequence[float]) -> PowerLaw | None:
    """Fit a line to the logarithms by least squares; None without two different sizes."""
    if len(set(sizes)) < 2:
        return None
    x, y = np.log(np.asarray(sizes, float)), np.log(np.asarray(costs, float))
    centered = x - x.mean()
    slope = float(centered @ y / (centered @ centered))
    residual = y - y.mean() - slope * centered
    freedom = len(x) - 2
    error = float(np.sqrt(residual @ residual / freedom / (centered @ centered))) if freedom else nan
    return PowerLaw(exp(float(y.mean() - slope * x.mean())), slope, error)
