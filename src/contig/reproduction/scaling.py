"""How a cost grows with size: the exponent of a power law."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, nan
from typing import NamedTuple

import numpy as np


class PowerLaw(NamedTuple):
    """``cost = factor * size ** exponent``; the error is NaN for two points, which any line meets."""

    factor: float
    exponent: float
    error: float  # standard error of the exponent

    def __call__(self, size: float) -> float:
        return float(self.factor * size**self.exponent)


def power_law(sizes: Sequence[float], costs: Sequence[float]) -> PowerLaw | None:
    """The least-squares line through the logarithms; None where fewer than two sizes differ."""
    x, y = np.log(np.asarray(sizes, float)), np.log(np.asarray(costs, float))
    if len(set(sizes)) < 2:
        return None
    apart = x - x.mean()
    slope = float(apart @ y / (apart @ apart))
    left = y - y.mean() - slope * apart
    freedom = len(x) - 2
    error = float(np.sqrt(left @ left / freedom / (apart @ apart))) if freedom else nan
    return PowerLaw(exp(float(y.mean() - slope * x.mean())), slope, error)
