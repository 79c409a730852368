"""The gated ODE of single rows that others drive, as a power series in ``s``.

``dx/ds = a x + l x(0) + b f(s)`` with ``a = beta/2 z_n - z_i``, ``l = z_l`` and ``b = beta/2 z_n`` has the
coefficients ``c_0 = x(0)`` and ``(m + 1) c_(m+1) = a c_m + b f_m``, with ``l x(0)`` added for ``m = 0``.
``f_m`` are the coefficients of ``f``, the sum of what other rows contribute.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class SeriesSettings(NamedTuple):
    """The constants of all rows."""

    half_beta: float  # beta / 2
    terms: int  # coefficients, the constant one included


def forced_series(x: Tensor, gates: Tensor, forcing: Tensor | None, settings: SeriesSettings) -> Tensor:
    """Return the coefficients ``[rows, terms, d]`` of rows that start at ``x`` ``[rows, d]``.

    ``gates`` ``[rows, 3 d]`` are those of the latest, the neighbor and the inherent factor; ``forcing`` are
    the first ``terms - 1`` coefficients of ``f``, ``[rows, terms - 1, d]``, or None for ``f = 0``.
    """
    return torch.stack(_coefficients(x, gates, forcing, settings), dim=1)


def forced_value(
    x: Tensor, gates: Tensor, forcing: Tensor | None, settings: SeriesSettings, at: float
) -> Tensor:
    """Return the values ``[rows, d]`` of the series of ``forced_series`` at one point."""
    first, *others = _coefficients(x, gates, forcing, settings)
    return sum((at**m * c for m, c in enumerate(others, start=1)), start=first)


def _coefficients(x: Tensor, gates: Tensor, forcing: Tensor | None, settings: SeriesSettings) -> list[Tensor]:
    latest, neighbor, inherent = gates.chunk(3, dim=1)
    between = settings.half_beta * neighbor
    own = between - inherent
    found = [x]
    for m in range(settings.terms - 1):
        slope = (own + latest) * x if m == 0 else own * found[m]
        if forcing is not None:
            slope = slope + between * forcing[:, m]
        found.append(slope / (m + 1))
    return found
