"""Pooling tokens in one pass per pair, without writing them to memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

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
