"""Cosine and sine of the same angles, computed together.

Most of the time goes into reducing large angles, which cosine and sine have in common. Reduced in
float64, angles up to 1e9 are exact to float32, and then a few terms of the series suffice. Far
beyond, where a float32 angle no longer determines the turn, results still lie on the unit circle.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from contig.data.columns import Array
from contig.kernels.cpu.launch import compile_loop, run_loop
from contig.kernels.time_waves import waves

MIN_ROWS = 1000  # per thread; waking one costs about as much as some hundred differences

QUARTER, EIGHTH, PER_QUARTER = math.pi / 2, math.pi / 4, 2 / math.pi
S3, S5, S7, S9 = (np.float32((-1) ** i / math.factorial(2 * i + 1)) for i in range(1, 5))
C2, C4, C6, C8, C10 = (np.float32((-1) ** i / math.factorial(2 * i)) for i in range(1, 6))
ONE = np.float32(1)


def time_waves(dt: Tensor, log_frequency: Tensor) -> Tensor:
    """Compute ``contig.kernels.time_waves.time_waves`` for differences without a gradient."""
    result: Tensor = _TimeWaves.apply(dt, log_frequency)  # type: ignore[no-untyped-call]
    return result


class _TimeWaves(torch.autograd.Function):
    """Write nothing but the waves, and keep nothing else for the gradient.

    With ``c = cos(w dt)`` and ``s = sin(w dt)`` the gradient of ``log w`` is ``w sum dt (g_s c - g_c s)``.
    """

    @staticmethod
    def forward(ctx: Any, dt: Tensor, log_frequency: Tensor) -> Tensor:
        frequency, flat = log_frequency.exp(), dt.flatten()
        if dt.dtype == frequency.dtype == torch.float32:
            result = frequency.new_empty(len(flat), 2 * len(frequency))
            run_loop(_forward, (flat, frequency), (result,), items=len(flat), min_items=MIN_ROWS)
        else:
            result = waves(flat, frequency)
        ctx.save_for_backward(flat, frequency, result)
        return result.view(*dt.shape, 2 * len(frequency))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor]:
        flat, frequency, result = ctx.saved_tensors
        total = torch.zeros_like(frequency, dtype=torch.float64)
        inputs = (flat, result, grads[0].reshape_as(result))
        run_loop(_backward, inputs, (total,), items=len(total), min_items=len(total))  # on one thread
        return None, (frequency * total).to(frequency.dtype)


@compile_loop
def _forward(dt: Array, frequency: Array, out: Array, first: int, end: int) -> None:
    """Set ``out[i] = [cos(frequency dt[i]) | sin(frequency dt[i])]`` in float32 for rows ``first..end``."""
    pairs = len(frequency)
    for i in range(first, end):
        cosine, sine, t = out[i, :pairs], out[i, pairs:], dt[i]
        for c in range(pairs):
            angle = np.float64(t * frequency[c])
            quarters = np.rint(angle * PER_QUARTER)
            turn = np.int32(quarters - 4 * np.floor(quarters * 0.25))  # of the circle, in quarters
            x = np.float32(min(max(angle - quarters * QUARTER, -EIGHTH), EIGHTH))
            z = x * x
            a = ONE + z * (C2 + z * (C4 + z * (C6 + z * (C8 + z * C10))))
            b = x + x * z * (S3 + z * (S5 + z * (S7 + z * S9)))
            across, up = (b, a) if turn & 1 else (a, b)
            cosine[c] = -across if turn == 1 or turn == 2 else across
            sine[c] = -up if turn >= 2 else up


@compile_loop
def _backward(dt: Array, waves: Array, grad: Array, out: Array, first: int, end: int) -> None:
    """Add up ``dt (g_s c - g_c s)`` in ``out``, in float64 since there are many, for pairs ``first..end``."""
    pairs = len(out)
    for i in range(len(dt)):
        cosine, sine = waves[i, first:end], waves[i, pairs + first : pairs + end]
        grad_cosine, grad_sine = grad[i, first:end], grad[i, pairs + first : pairs + end]
        total, t = out[first:end], dt[i]
        for c in range(end - first):
            total[c] += t * (grad_sine[c] * cosine[c] - grad_cosine[c] * sine[c])
