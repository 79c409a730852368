"""Power series of driven rows, one row and one block of its columns at a time.

Arithmetic is done in one small buffer at constant offsets: this is what lets the compiler vectorize it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from contig.data.columns import Array
from contig.kernels.cpu.launch import compile_loop, run_loop
from contig.kernels.forced_series import SeriesSettings


def forced_series(x: Tensor, gates: Tensor, forcing: Tensor | None, settings: SeriesSettings) -> Tensor:
    """Compute ``contig.kernels.forced_series.forced_series``."""
    found: Tensor = _Series.apply(x, gates, forcing, settings, None)  # type: ignore[no-untyped-call]
    return found


def forced_value(
    x: Tensor, gates: Tensor, forcing: Tensor | None, settings: SeriesSettings, at: float
) -> Tensor:
    """Compute ``contig.kernels.forced_series.forced_value``."""
    found: Tensor = _Series.apply(x, gates, forcing, settings, at)  # type: ignore[no-untyped-call]
    return found.squeeze(1)


class _Series(torch.autograd.Function):
    """The coefficients, or with ``at`` the sum ``[rows, 1, d]`` of the series there."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, gates: Tensor, forcing: Tensor | None, settings: SeriesSettings, at: float | None
    ) -> Tensor:
        driven = x.new_empty(len(x), 0, x.shape[1]) if forcing is None else forcing
        ctx.save_for_backward(x, gates, driven)
        ctx.powers = x.new_tensor([1.0 if at is None else at**m for m in range(settings.terms)])
        ctx.half = x.new_tensor([settings.half_beta])
        ctx.summed, ctx.driven = at is not None, forcing is not None
        out: Tensor = x.new_empty(len(x), 1 if ctx.summed else settings.terms, x.shape[1])
        run_loop(_forward, (x, gates, driven, ctx.half, ctx.powers), (out,), items=len(x))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, gates, driven = ctx.saved_tensors
        out = [x.new_empty(t.shape) for t in (x, gates, driven)]
        inputs = (x, gates, driven, ctx.half, ctx.powers, grads[0])
        run_loop(_backward, inputs, out, items=len(x))
        return out[0], out[1], out[2] if ctx.driven else None, None, None


BLOCK = 192  # columns
X, A, B, L, C, F, TOTAL = (BLOCK * i for i in range(7))
UP, DOWN, SLOPE, DX, DA, DB, DL = (BLOCK * i for i in range(7, 14))
WORK_SIZE = BLOCK * 14


@compile_loop
def _load(work: Array, to: int, table: Array, i: int, start: int, count: int) -> None:
    for c in range(count):
        work[to + c] = table[i, start + c]


@compile_loop
def _load_term(work: Array, to: int, table: Array, i: int, m: int, start: int, count: int) -> None:
    for c in range(count):
        work[to + c] = table[i, m, start + c]


@compile_loop
def _save(table: Array, i: int, start: int, work: Array, at: int, count: int) -> None:
    for c in range(count):
        table[i, start + c] = work[at + c]


@compile_loop
def _save_term(table: Array, i: int, m: int, start: int, work: Array, at: int, count: int) -> None:
    for c in range(count):
        table[i, m, start + c] = work[at + c]


@compile_loop
def _set_up(work: Array, x: Array, gates: Array, i: int, half: float, start: int, width: int) -> int:
    """Load a block of columns of a row, compute ``a`` and ``b``, and return how many columns it has."""
    count: int = min(BLOCK, width - start)
    _load(work, X, x, i, start, count)
    _load(work, L, gates, i, start, count)
    _load(work, B, gates, i, width + start, count)
    _load(work, A, gates, i, 2 * width + start, count)
    for c in range(count):
        work[B + c] *= half
        work[A + c] = work[B + c] - work[A + c]
        work[C + c] = work[X + c]
        work[TOTAL + c] = work[X + c]
    return count


@compile_loop
def _next(work: Array, forcing: Array, i: int, m: int, start: int, count: int) -> None:
    """Turn coefficient ``m`` into the next one."""
    by = work.dtype.type(1) / work.dtype.type(m + 1)
    if m == 0:
        for c in range(count):
            work[C + c] = (work[A + c] + work[L + c]) * work[X + c]
    else:
        for c in range(count):
            work[C + c] *= work[A + c]
    if forcing.shape[1] > 0:
        _load_term(work, F, forcing, i, m, start, count)
        for c in range(count):
            work[C + c] += work[B + c] * work[F + c]
    for c in range(count):
        work[C + c] *= by


@compile_loop
def _forward(
    x: Array,
    gates: Array,
    forcing: Array,
    half: Array,
    powers: Array,
    out: Array,
    first: int,
    end: int,
) -> None:
    """Fill rows ``first..end`` with coefficients, or with their sum if there is space for one only."""
    terms, width, summed = len(powers), x.shape[1], out.shape[1] == 1
    work = np.empty(WORK_SIZE, x.dtype)
    for i in range(first, end):
        for start in range(0, width, BLOCK):
            count = _set_up(work, x, gates, i, half[0], start, width)
            for m in range(1, terms):
                if not summed:
                    _save_term(out, i, m - 1, start, work, C, count)
                _next(work, forcing, i, m - 1, start, count)
                by = powers[m]
                for c in range(count):
                    work[TOTAL + c] += by * work[C + c]
            _save_term(out, i, out.shape[1] - 1, start, work, TOTAL if summed else C, count)


@compile_loop
def _backward(
    x: Array,
    gates: Array,
    forcing: Array,
    half: Array,
    powers: Array,
    grad: Array,
    grad_x: Array,
    grad_gates: Array,
    grad_forcing: Array,
    first: int,
    end: int,
) -> None:
    """Compute the gradients of rows ``first..end``."""
    terms, width = len(powers), x.shape[1]
    work, coefficients = np.empty(WORK_SIZE, x.dtype), np.empty((terms, BLOCK), x.dtype)
    for i in range(first, end):
        for start in range(0, width, BLOCK):
            count = _set_up(work, x, gates, i, half[0], start, width)
            for m in range(terms - 1):
                _save(coefficients, m, 0, work, C, count)
                _next(work, forcing, i, m, start, count)
            for c in range(count):
                work[DOWN + c], work[SLOPE + c], work[DA + c], work[DB + c] = 0, 0, 0, 0
            for m in range(terms - 1, 0, -1):
                _load(work, C, coefficients, m - 1, 0, count)
                _load_term(work, UP, grad, i, m if grad.shape[1] > 1 else 0, start, count)
                _step_back(work, powers[m], m, count)
                if forcing.shape[1] > 0:
                    _load_term(work, F, forcing, i, m - 1, start, count)
                    _force_back(work, count)
                    _save_term(grad_forcing, i, m - 1, start, work, F, count)
            _load_term(work, UP, grad, i, 0, start, count)
            _finish(work, powers[0], half[0], count)
            _save(grad_x, i, start, work, DX, count)
            _save(grad_gates, i, start, work, DL, count)
            _save(grad_gates, i, width + start, work, DB, count)
            _save(grad_gates, i, 2 * width + start, work, DA, count)


@compile_loop
def _step_back(work: Array, power: float, m: int, count: int) -> None:
    """Take the gradient of coefficient ``m`` to the one before it; ``SLOPE`` is that of its slope."""
    by = work.dtype.type(1) / work.dtype.type(m)
    for c in range(count):
        work[SLOPE + c] = by * (power * work[UP + c] + work[DOWN + c])
        work[DA + c] += work[SLOPE + c] * work[C + c]
        work[DOWN + c] = work[SLOPE + c] * work[A + c]


@compile_loop
def _force_back(work: Array, count: int) -> None:
    """Add to the gradient of ``b``, and replace the forcing by its own gradient."""
    for c in range(count):
        work[DB + c] += work[SLOPE + c] * work[F + c]
        work[F + c] = work[SLOPE + c] * work[B + c]


@compile_loop
def _finish(work: Array, power: float, half: float, count: int) -> None:
    """Compute the gradients of the start and the gates."""
    for c in range(count):
        work[DX + c] = power * work[UP + c] + work[DOWN + c]
        work[DL + c] = work[SLOPE + c] * work[X + c]
        work[DX + c] += work[SLOPE + c] * work[L + c]
        work[DB + c] = half * (work[DA + c] + work[DB + c])
        work[DA + c] = -work[DA + c]
