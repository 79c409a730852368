"""Time differences in the unit of a stream, and their functional encoding."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from contig.history.time_scale import TimeScale
from contig.kernels.time_waves import time_waves, waves

TimeInput = Literal["log", "linear", "raw"]
Frequencies = Literal["log", "direct"]
SLOWEST_RAW = 1e-9  # per unit of the stream, as in the code of TGAT


class Elapsed(nn.Module):
    """Time differences, counted in an interval that is typical of the training events.

    The unit is a percentile of the intervals between a node's events, by default the median. It is a buffer,
    saved with the weights: a trained model keeps its unit, whatever stream it reads.
    """

    unit: Tensor  # float64
    start: Tensor  # float64: the time of the first training event

    def __init__(self, scale: TimeScale, percent: int = 50) -> None:
        super().__init__()
        self.register_buffer("unit", torch.tensor(scale.percentile(percent), dtype=torch.float64))
        self.register_buffer("start", torch.tensor(scale.start, dtype=torch.float64))

    def forward(self, later: Tensor, earlier: Tensor) -> Tensor:
        """Return ``(later - earlier) / unit`` in float32.

        Both operations are exact to float64: Unix times need that, and a quotient that is rounded once does
        not depend on the stream's own unit.
        """
        return ((later - earlier).double() / self.unit).float()

    def since_start(self, times: Tensor) -> Tensor:
        """Return the time since the first training event."""
        since: Tensor = self(times, self.start)
        return since


class TimeEncoding(nn.Module):
    """Time differences as cosine and sine pairs with trainable frequencies.

    ``Phi(dt) = [cos(w_1 dt), ..., cos(w_m dt), sin(w_1 dt), ..., sin(w_m dt)]`` with ``m = dim / 2``
    (an odd ``dim`` drops the last sine). Frequencies start as a geometric sequence from ``fastest`` down
    to ``slowest``. Their logarithms are trained, so that an optimizer step changes each by a fraction of
    itself; a step of the same absolute size would wipe out the slow ones. ``direct`` trains the frequencies
    themselves and ``scaled`` divides by ``sqrt(dim)``, both as in the paper.
    """

    def __init__(
        self,
        dim: int,
        *,
        fastest: float = 1.0,
        slowest: float = 1e-3,
        scaled: bool = False,
        direct: bool = False,
    ) -> None:
        super().__init__()
        self.dim, self.direct = dim, direct
        self.scale = dim**-0.5 if scaled else 1.0
        pairs = (dim + 1) // 2
        start = torch.linspace(math.log(fastest), math.log(slowest), pairs)
        if direct:
            self.frequency = nn.Parameter(start.exp())
        else:
            self.log_frequency = nn.Parameter(start)

    def forward(self, dt: Tensor) -> Tensor:
        """Encode float32 differences ``[...]`` as ``[..., dim]``."""
        both = waves(dt, self.frequency) if self.direct else time_waves(dt, self.log_frequency)
        encoded = both[..., : self.dim]
        return encoded if self.scale == 1.0 else encoded * self.scale


class LogTimeEncoding(TimeEncoding):
    """``Phi(log(1 + dt))``: an interval is judged by its order of magnitude.

    The intervals of a node span five orders of magnitude, and waves of ``dt`` itself that can tell short
    ones apart turn many times within a long one: a path through a long silence looks like noise, and what
    was learned from short intervals says nothing about long ones. The logarithm is smooth on every scale.
    """

    def __init__(
        self,
        dim: int,
        *,
        fastest: float = 1.0,
        slowest: float = 0.1,
        scaled: bool = False,
        direct: bool = False,
    ) -> None:
        super().__init__(dim, fastest=fastest, slowest=slowest, scaled=scaled, direct=direct)

    def forward(self, dt: Tensor) -> Tensor:
        """Encode float32 differences ``[...]`` as ``[..., dim]``; negative ones count as 0."""
        return super().forward(torch.log1p(dt.clamp(min=0)))


def make_time_encoding(
    dim: int,
    scale: TimeScale,
    given: TimeInput = "log",
    frequencies: Frequencies = "log",
    *,
    scaled: bool = False,
) -> tuple[Elapsed, TimeEncoding]:
    """Build the layers that measure intervals and encode them.

    ``log`` counts intervals in the median of those in training and encodes the logarithm, ``linear`` counts
    them in the 95th percentile, ``raw`` in the stream's own unit.
    """
    direct = frequencies == "direct"
    if given == "log":
        return Elapsed(scale), LogTimeEncoding(dim, scaled=scaled, direct=direct)
    if given == "linear":
        return Elapsed(scale, percent=95), TimeEncoding(dim, scaled=scaled, direct=direct)
    plain = TimeScale(start=scale.start)  # its unit is 1
    return Elapsed(plain), TimeEncoding(dim, slowest=SLOWEST_RAW, scaled=scaled, direct=direct)


class FixedTimeEncoding(nn.Module):
    """Time differences as cosines with frequencies that are not trained, as in GraphMixer.

    ``Phi(dt) = [cos(w_1 dt), ..., cos(w_d dt)]`` with ``w_i = a^(-(i - 1) / a)`` and ``a = sqrt(d)``.
    """

    frequency: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        root = math.sqrt(dim)
        self.register_buffer("frequency", root ** (-torch.arange(dim) / root), persistent=False)

    def forward(self, dt: Tensor) -> Tensor:
        """Encode float32 differences ``[...]`` as ``[..., dim]``."""
        return torch.cos(dt.unsqueeze(-1) * self.frequency)
