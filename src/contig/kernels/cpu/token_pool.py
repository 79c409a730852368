"""Pooling tokens in one pass per pair, without writing them to memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from contig.data.columns import Array
from contig.kernels.cpu.launch import compile_loop, run_loop

if TYPE_CHECKING:
    from contig.kernels.token_pool import OwnTokens

POOLS = 3  # mean, maximum, latest: as in contig.kernels.token_pool
ZERO, HALF, ONE, ROOT_HALF, BOUND = (np.float32(x) for x in (0, 0.5, 1, 0.5**0.5, 4))
# erf(x) is x P(x^2) / Q(x^2) up to 4e-7, and 1 beyond 4; unlike math.erf, loops over it are vectorized.
P0, P1, P2, P3, P4, P5, P6 = (
    np.float32(x)
    for x in (
        1.128379093946808,
        0.20712894604194163,
        0.05152537295538065,
        0.003990727109901907,
        0.0001472900142657012,
        -1.942321591387213e-06,
        1.911072347960496e-08,
    )
)
Q1, Q2, Q3, Q4 = (
    np.float32(x)
    for x in (0.5168944963978145, 0.11797227526206218, 0.014958384981865722, 0.0010211496194446259)
)


def pool(active: Tensor, mask: Tensor) -> Tensor:
    """Pool tokens (see ``contig.kernels.token_pool``)."""
    *rows, slots, width = active.shape
    tokens = active.reshape(math.prod(rows), slots, width)
    mask = mask.expand(*rows, slots).reshape(math.prod(rows), slots)
    pooled: Tensor = _Pool.apply(tokens, mask)  # type: ignore[no-untyped-call]
    return pooled.view(*rows, POOLS * width)


class _Pool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, active: Tensor, mask: Tensor) -> Tensor:
        out: Tensor = active.new_empty(len(active), POOLS * active.shape[2])
        run_loop(_pool_tokens, (active, mask), (out,), items=len(active))
        ctx.save_for_backward(active, mask, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        active, mask, out = ctx.saved_tensors
        grad: Tensor = active.new_empty(active.shape)
        run_loop(_pool_back, (active, mask, out, grads[0]), (grad,), items=len(active))
        return grad, None


@compile_loop
def _pool_tokens(active: Array, mask: Array, out: Array, first: int, end: int) -> None:
    slots, width = active.shape[1], active.shape[2]
    for i in range(first, end):
        mean, most, latest = out[i, :width], out[i, width : 2 * width], out[i, 2 * width :]
        tokens = 0
        mean[:], latest[:] = 0, 0
        most[:] = -np.inf if slots else 0
        for t in range(slots):
            if mask[i, t]:
                _include(active[i, t], mean, most)
                tokens += 1
            else:
                _include_zeros(most)
        if slots and mask[i, 0]:
            latest[:] = active[i, 0]
        if tokens:
            _divide(mean, active.dtype.type(tokens))


@compile_loop
def _include(token: Array, total: Array, most: Array) -> None:
    for d in range(len(total)):
        total[d] += token[d]
    for d in range(len(most)):
        most[d] = max(most[d], token[d])


@compile_loop
def _include_zeros(most: Array) -> None:
    zero = most.dtype.type(0)
    for d in range(len(most)):
        most[d] = max(most[d], zero)


@compile_loop
def _divide(values: Array, by: float) -> None:
    for d in range(len(values)):
        values[d] /= by


@compile_loop
def _pool_back(
    active: Array, mask: Array, out: Array, grad: Array, grad_active: Array, first: int, end: int
) -> None:
    """Compute the gradients of the tokens; equal maxima, zeros of missing tokens included, share theirs."""
    slots, width = active.shape[1], active.shape[2]
    ties, shares = np.empty(width, active.dtype), np.empty(width, active.dtype)
    for i in range(first, end):
        most, tokens = out[i, width : 2 * width], 0
        ties[:] = 0
        for t in range(slots):
            if mask[i, t]:
                _count_equal(ties, active[i, t], most)
                tokens += 1
            else:
                _count_zeros(ties, most)
        _share(shares, grad[i, width : 2 * width], ties)
        by = active.dtype.type(1) / active.dtype.type(max(tokens, 1))
        for t in range(slots):
            if mask[i, t]:
                _token_back(grad_active[i, t], by, grad[i, :width], active[i, t], most, shares)
            else:
                grad_active[i, t] = 0
        if slots and mask[i, 0]:
            _add(grad_active[i, 0], grad[i, 2 * width :])


@compile_loop
def _count_equal(ties: Array, token: Array, most: Array) -> None:
    zero, one = ties.dtype.type(0), ties.dtype.type(1)
    for d in range(len(ties)):
        ties[d] += one if token[d] == most[d] else zero


@compile_loop
def _count_zeros(ties: Array, most: Array) -> None:
    zero, one = ties.dtype.type(0), ties.dtype.type(1)
    for d in range(len(ties)):
        ties[d] += one if most[d] == zero else zero


@compile_loop
def _share(shares: Array, grad: Array, ties: Array) -> None:
    for d in range(len(shares)):  # a maximum that is NaN equals no token
        shares[d] = grad[d] / ties[d] if ties[d] else np.nan


@compile_loop
def _token_back(out: Array, by: float, grad_mean: Array, token: Array, most: Array, grad_most: Array) -> None:
    zero = out.dtype.type(0)
    for d in range(len(out)):
        out[d] = by * grad_mean[d] + (grad_most[d] if token[d] == most[d] else zero)


@compile_loop
def _add(total: Array, values: Array) -> None:
    for d in range(len(total)):
        total[d] += values[d]


def pool_related(own: OwnTokens, related: Tensor, weight: Tensor, side: int) -> Tensor:
    """Pool the tokens of pairs (see ``contig.kernels.token_pool``)."""
    a, b, slots, features = related.shape
    out = related.new_empty((a * b, POOLS * len(weight)))
    count = own.mask.sum(dim=1)
    inputs = (own.hidden, own.active, count, related.view(a * b, slots, features), weight.T, b, side)
    run_loop(_pool, inputs, (out,), items=a * b, min_items=64)
    return out.view(a, b, -1)


@compile_loop
def _pool(
    hidden: Array,
    active: Array,
    count: Array,
    related: Array,
    weight: Array,
    columns: int,
    side: int,
    out: Array,
    first: int,
    end: int,
) -> None:
    slots, features = related.shape[1], related.shape[2]
    width = weight.shape[1]
    token = np.empty(width, np.float32)
    for pair in range(first, end):
        node = pair // columns if side == 0 else pair % columns
        tokens = count[node]
        row = out[pair]
        for d in range(3 * width):
            row[d] = ZERO
        for t in range(tokens):
            relates = False
            for s in range(features):
                relates |= related[pair, t, s] != ZERO
            if relates:
                _activate(hidden[node, t], related[pair, t], weight, token)
            else:
                token[:] = active[node, t]
            _accumulate(token, row, width, t)
        if tokens > 0:
            share = ONE / np.float32(tokens)
            for d in range(width):
                row[d] *= share
            if tokens < slots:  # a missing token counts as 0
                for d in range(width):
                    row[width + d] = max(row[width + d], ZERO)


@compile_loop
def _activate(own: Array, features: Array, weight: Array, token: Array) -> None:
    """Write ``gelu(own + features @ weight)`` to ``token``."""
    width = len(token)
    for d in range(width):
        token[d] = own[d]
    for s in range(len(features)):
        value = features[s]
        if value != ZERO:
            for d in range(width):
                token[d] += value * weight[s, d]
    for d in range(width):
        x = token[d]
        y = min(max(x * ROOT_HALF, -BOUND), BOUND)
        z = y * y
        above = y * (P0 + z * (P1 + z * (P2 + z * (P3 + z * (P4 + z * (P5 + z * P6))))))
        below = ONE + z * (Q1 + z * (Q2 + z * (Q3 + z * Q4)))
        ratio = above / below
        ratio = ONE if y >= BOUND else (-ONE if y <= -BOUND else ratio)
        token[d] = HALF * x * (ONE + ratio)


@compile_loop
def _accumulate(token: Array, row: Array, width: int, t: int) -> None:
    for d in range(width):
        row[d] += token[d]
    if t == 0:
        for d in range(width):
            row[width + d] = token[d]
            row[2 * width + d] = token[d]
    else:
        for d in range(width):
            row[width + d] = max(row[width + d], token[d])
