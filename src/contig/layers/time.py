"""Functional time encoding."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from contig.kernels.time_waves import time_waves


def elapsed(later: Tensor, earlier: Tensor) -> Tensor:
    """Return ``later - earlier`` in float32, subtracted at full precision: Unix seconds need it."""
    return (later - earlier).to(torch.float32)


class TimeEncoding(nn.Module):
    """Time differences as cosine and sine pairs with trainable frequencies.

    ``Phi(dt) = [cos(w_1 dt), ..., cos(w_m dt), sin(w_1 dt), ..., sin(w_m dt)]`` with ``m = dim / 2``
    (an odd ``dim`` drops the last sine). Frequencies start as a geometric sequence from ``fastest`` down
    to ``slowest``: by default periods from seconds to decades if time is in seconds. Their logarithms
    are trained, so that an optimizer step changes each by a fraction of itself; a step of the same
    absolute size would wipe out the slow ones. ``scaled`` divides by ``sqrt(dim)`` as in the paper.
    """

    def __init__(
        self, dim: int, *, fastest: float = 1.0, slowest: float = 1e-9, scaled: bool = False
    ) -> None:
        super().__init__()
        self.dim = dim
        self.scale = dim**-0.5 if scaled else 1.0
        pairs = (dim + 1) // 2
        self.log_frequency = nn.Parameter(torch.linspace(math.log(fastest), math.log(slowest), pairs))

    def forward(self, dt: Tensor) -> Tensor:
        """Encode float32 differences ``[...]`` as ``[..., dim]``."""
        waves = time_waves(dt, self.log_frequency)[..., : self.dim]
        return waves if self.scale == 1.0 else waves * self.scale


class LogTimeEncoding(TimeEncoding):
    """``Phi(log(1 + dt))``: an interval is judged by its order of magnitude.

    Waves of ``dt`` itself that can tell minutes apart turn many times a day, so what was learned from
    short intervals says nothing about long ones. Here the fastest wave turns once while ``1 + dt``
    grows about fivefold, and the slowest less than a fifth of a turn in a century of seconds, so
    intervals longer than any seen in training are a smooth extrapolation.
    """

    def __init__(self, dim: int) -> None:
        super().__init__(dim, fastest=4.0, slowest=0.05)

    def forward(self, dt: Tensor) -> Tensor:
        """Encode float32 differences ``[...]`` as ``[..., dim]``; negative ones count as 0."""
        return super().forward(torch.log1p(dt.clamp(min=0)))
