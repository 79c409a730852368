"""The flow of pairs, one pair and one block of its columns at a time.

All intermediate values are in one small buffer at constant offsets: this is what lets the compiler
see that they do not overlap, and vectorize. The letters are those of ``contig.kernels.pair_flow``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from contig.data.columns import Array
from contig.kernels.cpu.launch import compile_loop, run_loop
from contig.kernels.pair_flow import FlowSettings, series_slopes, series_terms


def pair_flow(
    x: Tensor, gates: Tensor, own: Tensor, partner: Tensor, linked: Tensor, settings: FlowSettings
) -> Tensor:
    """Compute ``contig.kernels.pair_flow.pair_flow``."""
    moved: Tensor = _PairFlow.apply(x, gates, own, partner, linked, settings)  # type: ignore[no-untyped-call]
    return moved


class _PairFlow(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        *tensors, ctx.settings = inputs
        ctx.save_for_backward(*tensors)
        x, own = tensors[0], tensors[2]
        out: Tensor = x.new_empty(len(own), x.shape[1])
        run_loop(_forward, (*tensors, *_constants(x, ctx.settings)), (out,), items=len(own))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, gates, *_ = ctx.saved_tensors
        grad_x, grad_gates = x.new_zeros(x.shape), gates.new_zeros(gates.shape)
        slopes = x.new_tensor(series_slopes(ctx.settings.degree))
        inputs = (*ctx.saved_tensors, *_constants(x, ctx.settings), slopes, grads[0])
        blocks = -(-x.shape[1] // BLOCK)
        run_loop(_backward, inputs, (grad_x, grad_gates), items=blocks)
        return grad_x, grad_gates, None, None, None, None


def _constants(x: Tensor, settings: FlowSettings) -> tuple[Tensor, Tensor]:
    """Return the constants and the coefficients of the series in the dtype of the rows."""
    return x.new_tensor([settings.half_beta, settings.horizon, 0.0]), x.new_tensor(
        series_terms(settings.degree)
    )


BLOCK = 64  # columns
XA, XB, LA, LB, NA, NB, IA, IB = (BLOCK * i for i in range(8))  # states, and gates by factor
PA, PB, GA, GB, Q, R = (BLOCK * i for i in range(8, 14))  # entries of A / T, and slopes
MU, E, D, U, V, C0, C1 = (BLOCK * i for i in range(14, 21))
W, BEFORE, C0_MU, C1_MU, C1_D, UP = (BLOCK * i for i in range(21, 27))
WORK_SIZE = BLOCK * 27


@compile_loop
def _check_rows(index: Array, rows: int, first: int, end: int) -> None:
    """Raise ``IndexError`` where the loops below would read outside of a table."""
    for i in range(first, end):
        if not 0 <= index[i] < rows:
            raise IndexError("pair_flow: a row index is out of range")


@compile_loop
def _load(work: Array, to: int, row: Array, start: int, count: int) -> None:
    for c in range(count):
        work[to + c] = row[start + c]


@compile_loop
def _add(row: Array, start: int, work: Array, at: int, count: int) -> None:
    for c in range(count):
        row[start + c] += work[at + c]


@compile_loop
def _set_up(
    work: Array, x: Array, gates: Array, a: int, b: int, half: float, part: float, horizon: float, start: int
) -> int:
    """Compute the systems of a block of columns of a pair, and return how many columns it has."""
    width = x.shape[1]
    count: int = min(BLOCK, width - start)
    by = horizon * work.dtype.type(0.5)  # a plain 0.5 would promote it to float64
    _load(work, XA, x[a], start, count)
    _load(work, XB, x[b], start, count)
    for factor in range(3):
        _load(work, LA + 2 * factor * BLOCK, gates[a], factor * width + start, count)
        _load(work, LB + 2 * factor * BLOCK, gates[b], factor * width + start, count)
    for c in range(count):
        work[PA + c] = half * work[NA + c] - work[IA + c]
        work[PB + c] = half * work[NB + c] - work[IB + c]
        work[Q + c] = part * work[NA + c]
        work[R + c] = part * work[NB + c]
        work[GA + c] = (work[PA + c] + work[LA + c]) * work[XA + c] + work[Q + c] * work[XB + c]
        work[GB + c] = (work[PB + c] + work[LB + c]) * work[XB + c] + work[R + c] * work[XA + c]
        work[MU + c] = by * (work[PA + c] + work[PB + c])
        work[E + c] = by * (work[PA + c] - work[PB + c])
        work[D + c] = work[E + c] * work[E + c] + horizon * work[Q + c] * horizon * work[R + c]
        work[U + c], work[V + c], work[C0 + c], work[C1 + c] = 1, 0, 0, 0
    return count


@compile_loop
def _forward(
    x: Array,
    gates: Array,
    own: Array,
    partner: Array,
    linked: Array,
    constants: Array,
    terms: Array,
    out: Array,
    first: int,
    end: int,
) -> None:
    """Compute the flow of pairs ``first..end``; ``constants`` are ``beta / 2``, ``T`` and 0."""
    _check_rows(own, len(x), first, end)
    _check_rows(partner, len(x), first, end)
    half, horizon, zero = constants[0], constants[1], constants[2]
    work = np.empty(WORK_SIZE, x.dtype)
    for i in range(first, end):
        part = half if linked[i] else zero
        for start in range(0, x.shape[1], BLOCK):
            count = _set_up(work, x, gates, own[i], partner[i], half, part, horizon, start)
            for m in range(len(terms)):
                k = terms[m]
                for c in range(count):
                    work[C0 + c] += k * work[U + c]
                    work[C1 + c] += k * work[V + c]
                    u = work[MU + c] * work[U + c] + work[D + c] * work[V + c]
                    work[V + c] = work[U + c] + work[MU + c] * work[V + c]
                    work[U + c] = u
            for c in range(count):
                off_mean = work[E + c] * work[GA + c] + horizon * work[Q + c] * work[GB + c]
                work[UP + c] = work[XA + c] + horizon * (
                    work[C0 + c] * work[GA + c] + work[C1 + c] * off_mean
                )
            for c in range(count):
                out[i, start + c] = work[UP + c]


@compile_loop
def _backward(
    x: Array,
    gates: Array,
    own: Array,
    partner: Array,
    linked: Array,
    constants: Array,
    terms: Array,
    slopes: Array,
    grad: Array,
    grad_x: Array,
    grad_gates: Array,
    first: int,
    end: int,
) -> None:
    """Add up the gradients in ``grad_x`` and ``grad_gates`` for the blocks of columns ``first..end``."""
    half, horizon, zero = constants[0], constants[1], constants[2]
    width = x.shape[1]
    work = np.empty(WORK_SIZE, x.dtype)
    for i in range(len(own)):
        a, b = own[i], partner[i]
        part = half if linked[i] else zero
        for start in range(first * BLOCK, min(end * BLOCK, width), BLOCK):
            count = _set_up(work, x, gates, a, b, half, part, horizon, start)
            _load(work, UP, grad[i], start, count)
            _sum_series(work, terms, slopes, count)
            _backpropagate(work, half, part, horizon, count)
            _add(grad_x[a], start, work, XA, count)
            _add(grad_x[b], start, work, XB, count)
            for factor in range(3):
                _add(grad_gates[a], factor * width + start, work, LA + 2 * factor * BLOCK, count)
                _add(grad_gates[b], factor * width + start, work, LB + 2 * factor * BLOCK, count)


@compile_loop
def _sum_series(work: Array, terms: Array, slopes: Array, count: int) -> None:
    """Sum the series and its derivatives."""
    for c in range(count):
        work[W + c], work[BEFORE + c] = 0, 0
        work[C0_MU + c], work[C1_MU + c], work[C1_D + c] = 0, 0, 0
    for m in range(len(terms)):
        k, slope, step = terms[m], slopes[m], terms.dtype.type(0.5 * m)
        for c in range(count):
            work[C0 + c] += k * work[U + c]
            work[C1 + c] += k * work[V + c]
            work[C0_MU + c] += slope * work[U + c]
            work[C1_MU + c] += slope * work[V + c]
            work[C1_D + c] += k * work[W + c]
            work[W + c] = step * work[BEFORE + c] + work[MU + c] * work[W + c]
            work[BEFORE + c] = work[V + c]
            u = work[MU + c] * work[U + c] + work[D + c] * work[V + c]
            work[V + c] = work[U + c] + work[MU + c] * work[V + c]
            work[U + c] = u


@compile_loop
def _backpropagate(work: Array, half: float, part: float, horizon: float, count: int) -> None:
    """Turn the gradient of the result into those of states and gates, and write them in their places."""
    one_half = work.dtype.type(0.5)
    by = horizon * one_half
    for c in range(count):
        xa, xb, up = work[XA + c], work[XB + c], work[UP + c]
        ga, gb, e = work[GA + c], work[GB + c], work[E + c]
        c0, c1 = work[C0 + c], work[C1 + c]
        q, r = horizon * work[Q + c], horizon * work[R + c]
        g = horizon * up
        d_c0, d_c1 = g * ga, g * (e * ga + q * gb)
        d_ga, d_gb = g * (c0 + c1 * e), g * c1 * q
        d_mu = d_c0 * work[C0_MU + c] + d_c1 * work[C1_MU + c]
        d_d = one_half * d_c0 * work[C1_MU + c] + d_c1 * work[C1_D + c]
        d_e = g * c1 * ga + (e + e) * d_d
        d_q = horizon * (g * c1 * gb + r * d_d) + d_ga * xb
        d_r = horizon * q * d_d + d_gb * xa
        d_pa = by * (d_mu + d_e) + d_ga * xa
        d_pb = by * (d_mu - d_e) + d_gb * xb
        work[XA + c] = up + d_ga * (work[PA + c] + work[LA + c]) + d_gb * work[R + c]
        work[XB + c] = d_ga * work[Q + c] + d_gb * (work[PB + c] + work[LB + c])
        work[LA + c], work[LB + c] = d_ga * xa, d_gb * xb
        work[NA + c], work[NB + c] = half * d_pa + part * d_q, half * d_pb + part * d_r
        work[IA + c], work[IB + c] = -d_pa, -d_pb
