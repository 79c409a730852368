"""Functional time encoding."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from contig.kernels.cpu.running import run
from contig.kernels.dispatch import backend

PART = 1000  # differences; waking a thread costs about as much as encoding some hundred


def elapsed(later: Tensor, earlier: Tensor) -> Tensor:
    """``later - earlier`` as float32, taken at full precision first: Unix seconds need it."""
    return (later - earlier).to(torch.float32)


class TimeEncoding(nn.Module):
    """Time differences as cosine and sine pairs with trainable frequencies.

    ``Phi(dt) = [cos(w_1 dt), ..., cos(w_m dt), sin(w_1 dt), ..., sin(w_m dt)]`` with ``m = dim / 2``
    (an odd ``dim`` drops the last sine). Frequencies start as a geometric ladder from ``fastest`` down
    to ``slowest``: by default periods from seconds to decades when time counts seconds. They are
    trained by their logarithm, so that a step of the optimizer changes each by a share of itself:
    stepped directly, the slow ones are lost at once. ``scaled`` divides by ``sqrt(dim)`` as the paper
    writes.
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
        """``[...]`` float32 differences to ``[..., dim]``."""
        if backend(dt.device) == "numba" and not dt.requires_grad:
            waves: Tensor = _InLoops.apply(dt, self.log_frequency)  # type: ignore[no-untyped-call]
        else:
            waves = _waves(dt, self.log_frequency.exp())
        waves = waves[..., : self.dim]
        return waves if self.scale == 1.0 else waves * self.scale


class LogTimeEncoding(TimeEncoding):
    """``Phi(log(1 + dt))``: what a change of the interval says depends on its share, not its length.

    Waves of ``dt`` itself that tell minutes apart turn many times within a day, so that what was
    learned of short intervals is answered at random for long ones. Here the fastest wave turns
    once while ``1 + dt`` grows about fivefold, and the slowest less than a fifth of once in a century
    of seconds: intervals longer than any learned from go on where those ended.
    """

    def __init__(self, dim: int) -> None:
        super().__init__(dim, fastest=4.0, slowest=0.05)

    def forward(self, dt: Tensor) -> Tensor:
        """``[...]`` float32 differences to ``[..., dim]``; those below 0 count as 0."""
        return super().forward(torch.log1p(dt.clamp(min=0)))


def _waves(dt: Tensor, frequency: Tensor) -> Tensor:
    """Both waves side by side, ``[..., 2 * frequencies]``."""
    angle = dt.unsqueeze(-1) * frequency
    return torch.cat([torch.cos(angle), torch.sin(angle)], dim=-1)


class _InLoops(torch.autograd.Function):
    """On a CPU every pass over so many numbers counts: the waves alone are written, and kept.

    With ``c = cos(w dt)`` and ``s = sin(w dt)`` the gradient by ``log w`` is ``w sum dt (g_s c - g_c s)``.
    """

    @staticmethod
    def forward(ctx: Any, dt: Tensor, log_frequency: Tensor) -> Tensor:
        frequency, flat = log_frequency.exp(), dt.flatten()
        if dt.dtype == frequency.dtype == torch.float32:
            waves = frequency.new_empty(len(flat), 2 * len(frequency))
            run("waves", flat, frequency, waves, over=len(flat), least=PART)
        else:
            waves = _waves(flat, frequency)
        ctx.save_for_backward(flat, frequency, waves)
        return waves.view(*dt.shape, 2 * len(frequency))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor]:
        flat, frequency, waves = ctx.saved_tensors
        total = torch.zeros_like(frequency, dtype=torch.float64)
        run("waves_back", flat, waves, grads[0].reshape_as(waves), total, over=len(total), least=len(total))
        return None, (frequency * total).to(frequency.dtype)
