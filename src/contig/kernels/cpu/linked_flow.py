"""The flow of linked rows, one row at a time, with the series of its links computed where they are needed.

The series of a row fits into the fastest cache. Computing that of a linked row again for each of its links,
and once more for the gradient, takes less time than storing it for all rows.
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

MIN_COLUMNS = 32  # per thread


def linked_flow(
    x: Tensor, gates: Tensor, own: Tensor, linked: Tensor, weight: Tensor, settings: SeriesSettings, at: float
) -> Tensor:
    """Compute ``contig.kernels.linked_flow.linked_flow``."""
    if gates.shape != (len(x), 3 * x.shape[1]) or linked.shape != weight.shape or len(own) != len(linked):
        raise ValueError("linked_flow: the shapes of the rows, gates and links do not match")
    if settings.terms < 2:
        raise ValueError("linked_flow: a series needs at least two terms")
    tensors = (x, gates, own, linked, weight.to(x.dtype))
    moved: Tensor = _LinkedFlow.apply(*tensors, settings, at)  # type: ignore[no-untyped-call]
    return moved


class _LinkedFlow(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        *tensors, settings, at = inputs
        x, own = tensors[0], tensors[2]
        ctx.save_for_backward(*tensors)
        ctx.half = x.new_tensor([settings.half_beta])
        ctx.powers = x.new_tensor([at**m for m in range(settings.terms)])
        out: Tensor = x.new_empty(len(own), x.shape[1])
        run_loop(_forward, (*tensors, ctx.half, ctx.powers), (out,), items=len(own))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, gates, *_ = ctx.saved_tensors
        grad_x, grad_gates = x.new_zeros(x.shape), gates.new_zeros(gates.shape)
        inputs = (*ctx.saved_tensors, ctx.half, ctx.powers, grads[0])
        # Threads share columns: links of different rows add to the gradient of the same row.
        run_loop(_backward, inputs, (grad_x, grad_gates), items=x.shape[1], min_items=MIN_COLUMNS)
        return grad_x, grad_gates, None, None, None, None, None


# Loops index arrays by their counter alone, so that the compiler can vectorize them: rows are cut before.


@compile_loop
def _check_row(row: int, rows: int) -> None:
    if not 0 <= row < rows:
        raise IndexError("linked_flow: a row index is out of range")


@compile_loop
def _cut(gates: Array, row: int, first: int, end: int) -> tuple[Array, Array, Array]:
    """Return columns ``first..end`` of the three gates of a row."""
    width = gates.shape[1] // 3
    cut = gates[row]
    return (
        cut[first:end],
        cut[width + first : width + end],
        cut[2 * width + first : 2 * width + end],
    )


@compile_loop
def _rates(rate: Array, between: Array, neighbor: Array, inherent: Array, half: float) -> None:
    """Compute ``a`` and ``b``."""
    for c in range(len(rate)):
        between[c] = half * neighbor[c]
    for c in range(len(rate)):
        rate[c] = half * neighbor[c] - inherent[c]


@compile_loop
def _first_term(term: Array, rate: Array, latest: Array, x: Array) -> None:
    """Compute ``c_1`` without forcing."""
    for c in range(len(term)):
        term[c] = (rate[c] + latest[c]) * x[c]


@compile_loop
def _next_term(term: Array, previous: Array, rate: Array, by: float) -> None:
    for c in range(len(term)):
        term[c] = by * previous[c] * rate[c]


@compile_loop
def _add(total: Array, by: float, values: Array) -> None:
    for c in range(len(total)):
        total[c] += by * values[c]


@compile_loop
def _add_product(total: Array, by: float, left: Array, right: Array) -> None:
    for c in range(len(total)):
        total[c] += by * left[c] * right[c]


@compile_loop
def _series(
    series: Array, rate: Array, between: Array, x: Array, gates: tuple[Array, Array, Array], half: float
) -> None:
    """Compute the coefficients of a row that moves by itself."""
    _rates(rate, between, gates[1], gates[2], half)
    series[0] = x
    if len(series) > 1:
        _first_term(series[1], rate, gates[0], x)
    for m in range(2, len(series)):
        _next_term(series[m], series[m - 1], rate, series.dtype.type(1) / series.dtype.type(m))


@compile_loop
def _forced_series(
    series: Array,
    rate: Array,
    between: Array,
    x: Array,
    gates: tuple[Array, Array, Array],
    forcing: Array,
    half: float,
) -> None:
    """Compute the coefficients of a row with forcing."""
    _rates(rate, between, gates[1], gates[2], half)
    series[0] = x
    _first_term(series[1], rate, gates[0], x)
    _add_product(series[1], series.dtype.type(1), between, forcing[0])
    for m in range(2, len(series)):
        by = series.dtype.type(1) / series.dtype.type(m)
        _next_term(series[m], series[m - 1], rate, by)
        _add_product(series[m], by, between, forcing[m - 1])


@compile_loop
def _sum_links(
    forcing: Array,
    series: Array,
    rate: Array,
    between: Array,
    x: Array,
    gates: Array,
    linked: Array,
    weight: Array,
    half: float,
    first: int,
    end: int,
) -> None:
    """Sum the coefficients of the links of one row."""
    forcing[:] = 0
    for j in range(len(linked)):
        if weight[j] != 0:
            _check_row(linked[j], len(x))
            row, cut = x[linked[j]][first:end], _cut(gates, linked[j], first, end)
            _series(series, rate, between, row, cut, half)
            for m in range(len(series)):
                _add(forcing[m], weight[j], series[m])


@compile_loop
def _forward(
    x: Array,
    gates: Array,
    own: Array,
    linked: Array,
    weight: Array,
    half: Array,
    powers: Array,
    out: Array,
    first: int,
    end: int,
) -> None:
    """Compute rows ``first..end``."""
    terms, width = len(powers), x.shape[1]
    rate, between = np.empty(width, x.dtype), np.empty(width, x.dtype)
    series, forcing = np.empty((terms, width), x.dtype), np.empty((terms - 1, width), x.dtype)
    for i in range(first, end):
        _check_row(own[i], len(x))
        _sum_links(forcing, series[:-1], rate, between, x, gates, linked[i], weight[i], half[0], 0, width)
        _forced_series(series, rate, between, x[own[i]], _cut(gates, own[i], 0, width), forcing, half[0])
        out[i] = series[0]
        for m in range(1, terms):
            _add(out[i], powers[m], series[m])


@compile_loop
def _backward(
    x: Array,
    gates: Array,
    own: Array,
    linked: Array,
    weight: Array,
    half: Array,
    powers: Array,
    grad: Array,
    grad_x: Array,
    grad_gates: Array,
    first: int,
    end: int,
) -> None:
    """Add the gradients of columns ``first..end``."""
    terms, width = len(powers), end - first
    rate, between, slope = np.empty(width, x.dtype), np.empty(width, x.dtype), np.empty(width, x.dtype)
    down, d_rate, d_between = np.empty(width, x.dtype), np.empty(width, x.dtype), np.empty(width, x.dtype)
    series, forcing = np.empty((terms, width), x.dtype), np.empty((terms - 1, width), x.dtype)
    for i in range(len(own)):
        row, cut, grad_row = x[own[i]][first:end], _cut(gates, own[i], first, end), grad[i][first:end]
        _sum_links(forcing, series[:-1], rate, between, x, gates, linked[i], weight[i], half[0], first, end)
        _forced_series(series, rate, between, row, cut, forcing, half[0])
        down[:], d_rate[:], d_between[:] = 0, 0, 0
        for m in range(terms - 1, 0, -1):
            _slope(slope, powers[m], grad_row, down, m)
            _add_product(d_between, half[0], slope, forcing[m - 1])
            _product(forcing[m - 1], slope, between)  # from here on the gradient of the forcing
            _step_back(d_rate, down, slope, series[m - 1], rate)
        d_x, d_gates = grad_x[own[i]][first:end], _cut(grad_gates, own[i], first, end)
        _add(d_x, powers[0], grad_row)
        _finish(d_x, d_gates, row, cut[0], slope, down, d_rate, half[0])
        _add(d_gates[1], x.dtype.type(1), d_between)
        for j in range(linked.shape[1]):
            if weight[i, j] != 0:
                to = linked[i, j]
                row, cut = x[to][first:end], _cut(gates, to, first, end)
                _series(series[:-1], rate, between, row, cut, half[0])
                slope[:], down[:], d_rate[:] = 0, 0, 0  # a series of one coefficient has no slope
                for m in range(terms - 2, 0, -1):
                    _slope(slope, weight[i, j], forcing[m], down, m)
                    _step_back(d_rate, down, slope, series[m - 1], rate)
                d_x, d_gates = grad_x[to][first:end], _cut(grad_gates, to, first, end)
                _add(d_x, weight[i, j], forcing[0])
                _finish(d_x, d_gates, row, cut[0], slope, down, d_rate, half[0])


@compile_loop
def _slope(slope: Array, weight: float, grad: Array, down: Array, m: int) -> None:
    """Compute the gradient of the slope that coefficient ``m`` comes from."""
    by = slope.dtype.type(1) / slope.dtype.type(m)
    for c in range(len(slope)):
        slope[c] = by * (weight * grad[c] + down[c])


@compile_loop
def _product(out: Array, left: Array, right: Array) -> None:
    for c in range(len(out)):
        out[c] = left[c] * right[c]


@compile_loop
def _step_back(d_rate: Array, down: Array, slope: Array, previous: Array, rate: Array) -> None:
    """Take the gradient of a slope to the rate and to the coefficient before."""
    for c in range(len(slope)):
        d_rate[c] += slope[c] * previous[c]
    for c in range(len(slope)):
        down[c] = slope[c] * rate[c]


@compile_loop
def _finish(
    d_x: Array,
    d_gates: tuple[Array, Array, Array],
    x: Array,
    latest: Array,
    slope: Array,
    down: Array,
    d_rate: Array,
    half: float,
) -> None:
    """Add the gradients of the start and of the gates; ``slope`` and ``down`` are those of ``c_1``."""
    one = x.dtype.type(1)
    _add(d_x, one, down)
    _add_product(d_x, one, slope, latest)
    _add_product(d_gates[0], one, slope, x)
    _add(d_gates[1], half, d_rate)
    _add(d_gates[2], -one, d_rate)
