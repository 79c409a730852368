"""The loops of the layers that are worth compiling for the CPU.

Plain Python over numpy arrays, compiled by numba on first use and cached on disk. The torch operations
in ``rows.py``, ``time.py``, ``parted.py`` and ``pairs.py`` compute the same on a GPU and are what these
are tested against. Each loop does a range of its rows or columns, so that several can run side by side
without ever writing to the same place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from contig.data.columns import Array


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Sums may be taken in any order, so that many numbers are added at once; nothing else is loosened."""
    made: Callable[..., Any] = njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "arcp", "nsz"})(
        function
    )
    return made


# -- attention over rows of tables, taken where they are used -------------------------------------------
#
# ``asked`` and what comes back are ``[heads, queries, columns]``, the columns of the tables side by side.


@_compiled
def _dots(
    given: Array, tables: tuple[Array, ...], places: tuple[Array, ...], q: int, j: int, out: Array
) -> None:
    """``out[h]``: the product of what a query has for each head with its ``j``-th row of all tables."""
    for h in range(len(out)):
        out[h] = 0
    start = 0
    for p in range(len(tables)):
        row = tables[p][places[p][q, j]]
        for h in range(len(out)):
            mine = given[h, q, start : start + len(row)]
            total = out.dtype.type(0)
            for c in range(len(row)):
                total += mine[c] * row[c]
            out[h] += total
        start += len(row)


@_compiled
def _mix(
    weights: Array, tables: tuple[Array, ...], places: tuple[Array, ...], q: int, j: int, out: Array
) -> None:
    """Adds ``weights[h]`` times a query's ``j``-th row of all tables to ``out[h, q]``."""
    start = 0
    for p in range(len(tables)):
        row = tables[p][places[p][q, j]]
        for h in range(len(weights)):
            mine, weight = out[h, q, start : start + len(row)], weights[h]
            for c in range(len(row)):
                mine[c] += weight * row[c]
        start += len(row)


def _attend(
    asked: Array,
    tables: tuple[Array, ...],
    places: tuple[Array, ...],
    mask: Array,
    keep: Array,
    weights: Array,
    out: Array,
    first: int,
    end: int,
) -> None:
    """``weights`` and what they make of the rows, for queries ``first..end``."""
    heads, k = len(asked), mask.shape[1]
    logits = np.empty((k, heads), asked.dtype)
    for q in range(first, end):
        out[:, q] = 0
        weights[:, q] = 0
        for j in range(k):
            if mask[q, j]:
                _dots(asked, tables, places, q, j, logits[j])
        for h in range(heads):
            top, total = -asked.dtype.type(np.inf), asked.dtype.type(0)
            for j in range(k):
                if mask[q, j]:
                    top = max(top, logits[j, h])
            for j in range(k):
                if mask[q, j]:
                    weights[h, q, j] = np.exp(logits[j, h] - top)
                    total += weights[h, q, j]
            for j in range(k):
                if mask[q, j]:
                    weights[h, q, j] /= total
                    logits[j, h] = weights[h, q, j] * keep[h, q, j]
        for j in range(k):
            if mask[q, j]:
                _mix(logits[j], tables, places, q, j, out)


def _attend_back(
    asked: Array,
    tables: tuple[Array, ...],
    places: tuple[Array, ...],
    mask: Array,
    keep: Array,
    weights: Array,
    grad: Array,
    of_logits: Array,
    of_asked: Array,
    first: int,
    end: int,
) -> None:
    """The gradients of the logits and of what was asked, for queries ``first..end``."""
    heads, k = len(asked), mask.shape[1]
    of_weights = np.empty((k, heads), asked.dtype)
    for q in range(first, end):
        of_asked[:, q] = 0
        of_logits[:, q] = 0
        for j in range(k):
            if mask[q, j]:
                _dots(grad, tables, places, q, j, of_weights[j])
        for h in range(heads):
            mean = asked.dtype.type(0)
            for j in range(k):
                if mask[q, j]:
                    of_weights[j, h] *= keep[h, q, j]
                    mean += weights[h, q, j] * of_weights[j, h]
            for j in range(k):
                if mask[q, j]:
                    of_weights[j, h] = weights[h, q, j] * (of_weights[j, h] - mean)
                    of_logits[h, q, j] = of_weights[j, h]
        for j in range(k):
            if mask[q, j]:
                _mix(of_weights[j], tables, places, q, j, of_asked)


def _scatter(
    of_logits: Array,
    asked: Array,
    kept: Array,
    grad: Array,
    at: Array,
    mask: Array,
    start: int,
    out: Array,
    first: int,
    end: int,
) -> None:
    """Adds the gradient of a table up in ``out``, for its columns ``first..end``; ``start`` is its place."""
    left, right = start + first, start + end
    for q in range(len(at)):
        for j in range(at.shape[1]):
            if mask[q, j]:
                row = out[at[q, j], first:end]
                for h in range(len(asked)):
                    a, mine = of_logits[h, q, j], asked[h, q, left:right]
                    b, up = kept[h, q, j], grad[h, q, left:right]
                    for c in range(end - first):
                        row[c] += a * mine[c] + b * up[c]


def _add_rows(given: Array, at: Array, out: Array, first: int, end: int) -> None:
    """``out[at[i]] += given[i]``, for columns ``first..end``."""
    for i in range(len(at)):
        row, mine = out[at[i], first:end], given[i, first:end]
        for c in range(end - first):
            row[c] += mine[c]


attend: Callable[..., None] = _compiled(_attend)
attend_back: Callable[..., None] = _compiled(_attend_back)
scatter: Callable[..., None] = _compiled(_scatter)
add_rows: Callable[..., None] = _compiled(_add_rows)


# -- waves ----------------------------------------------------------------------------------------------
#
# Cosine and sine together: what takes time is bringing large angles near 0, and both need it. Taken in
# float64 it is exact to float32 up to angles of 1e9, and four terms of their series are as good. Far beyond,
# where turns are lost in a float32 angle as well, they still are points of the circle.

QUARTER, EIGHTH, PER_QUARTER = math.pi / 2, math.pi / 4, 2 / math.pi
S3, S5, S7, S9 = (np.float32((-1) ** i / math.factorial(2 * i + 1)) for i in range(1, 5))
C2, C4, C6, C8, C10 = (np.float32((-1) ** i / math.factorial(2 * i)) for i in range(1, 6))
ONE = np.float32(1)


def _waves(dt: Array, frequency: Array, out: Array, first: int, end: int) -> None:
    """``out[i] = [cos(frequency dt[i]) | sin(frequency dt[i])]`` in float32, for rows ``first..end``."""
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


def _waves_back(dt: Array, waves: Array, grad: Array, out: Array, first: int, end: int) -> None:
    """Adds ``dt (g_s c - g_c s)`` up in ``out`` (float64, since there are many), for pairs ``first..end``."""
    pairs = len(out)
    for i in range(len(dt)):
        cosine, sine = waves[i, first:end], waves[i, pairs + first : pairs + end]
        of_cosine, of_sine = grad[i, first:end], grad[i, pairs + first : pairs + end]
        total, t = out[first:end], dt[i]
        for c in range(end - first):
            total[c] += t * (of_sine[c] * cosine[c] - of_cosine[c] * sine[c])


waves: Callable[..., None] = _compiled(_waves)
waves_back: Callable[..., None] = _compiled(_waves_back)


# -- the gates of a GRU ---------------------------------------------------------------------------------


def _gates_back(
    gates: Array,
    new: Array,
    own: Array,
    h: Array,
    grad: Array,
    of_told: Array,
    of_own: Array,
    first: int,
    end: int,
) -> None:
    """The gradients of what was told and of a state's own part, for rows ``first..end``."""
    width, one = h.shape[1], h.dtype.type(1)
    for i in range(first, end):
        reset, keep, n, up = gates[i, :width], gates[i, width:], new[i], grad[i]
        of_new, of_keep, of_reset = of_told[i, 2 * width :], of_told[i, width : 2 * width], of_told[i, :width]
        n_own, before, from_own = own[i, 2 * width :], h[i], of_own[i, 2 * width :]
        for c in range(width):
            of_new[c] = up[c] * (one - keep[c]) * (one - n[c] * n[c])
        for c in range(width):
            of_keep[c] = up[c] * (before[c] - n[c]) * keep[c] * (one - keep[c])
        for c in range(width):
            of_reset[c] = of_new[c] * n_own[c] * reset[c] * (one - reset[c])
        for c in range(width):
            from_own[c] = of_new[c] * reset[c]
        both, own_both = of_told[i, : 2 * width], of_own[i, : 2 * width]
        for c in range(2 * width):
            own_both[c] = both[c]


gates_back: Callable[..., None] = _compiled(_gates_back)


# -- the flow of pairs ----------------------------------------------------------------------------------
#
# One pair and one block of its columns at a time, all of it in one small buffer whose parts lie at
# constant places: only so does the compiler see that they do not overlap, and computes many columns at
# once. The letters are those of ``pairs.py``.

BLOCK = 64  # columns
XA, XB, LA, LB, NA, NB, IA, IB = (BLOCK * i for i in range(8))  # starts, and gates by factor
PA, PB, GA, GB, Q, R = (BLOCK * i for i in range(8, 14))  # own and mutual parts of A / T, slopes
MU, E, D, U, V, C0, C1 = (BLOCK * i for i in range(14, 21))
W, BEFORE, C0_MU, C1_MU, C1_D, UP = (BLOCK * i for i in range(21, 27))
ROOM = BLOCK * 27


@_compiled
def _load(room: Array, to: int, row: Array, start: int, count: int) -> None:
    for c in range(count):
        room[to + c] = row[start + c]


@_compiled
def _add(row: Array, start: int, room: Array, at: int, count: int) -> None:
    for c in range(count):
        row[start + c] += room[at + c]


@_compiled
def _set_up(
    room: Array, x: Array, gates: Array, a: int, b: int, half: float, part: float, horizon: float, start: int
) -> int:
    """The systems of a pair's block of columns; gives how many columns it has."""
    width = x.shape[1]
    count: int = min(BLOCK, width - start)
    by = horizon * room.dtype.type(0.5)  # a plain 0.5 would make a float64 of it
    _load(room, XA, x[a], start, count)
    _load(room, XB, x[b], start, count)
    for factor in range(3):
        _load(room, LA + 2 * factor * BLOCK, gates[a], factor * width + start, count)
        _load(room, LB + 2 * factor * BLOCK, gates[b], factor * width + start, count)
    for c in range(count):
        room[PA + c] = half * room[NA + c] - room[IA + c]
        room[PB + c] = half * room[NB + c] - room[IB + c]
        room[Q + c] = part * room[NA + c]
        room[R + c] = part * room[NB + c]
        room[GA + c] = (room[PA + c] + room[LA + c]) * room[XA + c] + room[Q + c] * room[XB + c]
        room[GB + c] = (room[PB + c] + room[LB + c]) * room[XB + c] + room[R + c] * room[XA + c]
        room[MU + c] = by * (room[PA + c] + room[PB + c])
        room[E + c] = by * (room[PA + c] - room[PB + c])
        room[D + c] = room[E + c] * room[E + c] + horizon * room[Q + c] * horizon * room[R + c]
        room[U + c], room[V + c], room[C0 + c], room[C1 + c] = 1, 0, 0, 0
    return count


def _flow(
    x: Array,
    gates: Array,
    mine: Array,
    theirs: Array,
    linked: Array,
    constants: Array,
    terms: Array,
    out: Array,
    first: int,
    end: int,
) -> None:
    """``pairs.flow`` of the pairs ``first..end``; ``constants`` are ``beta / 2`` and ``T``."""
    half, horizon, zero = constants[0], constants[1], constants[2]
    room = np.empty(ROOM, x.dtype)
    for i in range(first, end):
        part = half if linked[i] else zero
        for start in range(0, x.shape[1], BLOCK):
            count = _set_up(room, x, gates, mine[i], theirs[i], half, part, horizon, start)
            for m in range(len(terms)):
                k = terms[m]
                for c in range(count):
                    room[C0 + c] += k * room[U + c]
                    room[C1 + c] += k * room[V + c]
                    u = room[MU + c] * room[U + c] + room[D + c] * room[V + c]
                    room[V + c] = room[U + c] + room[MU + c] * room[V + c]
                    room[U + c] = u
            for c in range(count):
                aside = room[E + c] * room[GA + c] + horizon * room[Q + c] * room[GB + c]
                room[UP + c] = room[XA + c] + horizon * (room[C0 + c] * room[GA + c] + room[C1 + c] * aside)
            for c in range(count):
                out[i, start + c] = room[UP + c]


def _flow_back(
    x: Array,
    gates: Array,
    mine: Array,
    theirs: Array,
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
    """Adds the gradients of ``_flow`` up in ``grad_x`` and ``grad_gates``, for the blocks ``first..end``."""
    half, horizon, zero = constants[0], constants[1], constants[2]
    width = x.shape[1]
    room = np.empty(ROOM, x.dtype)
    for i in range(len(mine)):
        a, b = mine[i], theirs[i]
        part = half if linked[i] else zero
        for start in range(first * BLOCK, min(end * BLOCK, width), BLOCK):
            count = _set_up(room, x, gates, a, b, half, part, horizon, start)
            _load(room, UP, grad[i], start, count)
            _derive(room, terms, slopes, count)
            _chain(room, half, part, horizon, count)
            _add(grad_x[a], start, room, XA, count)
            _add(grad_x[b], start, room, XB, count)
            for factor in range(3):
                _add(grad_gates[a], factor * width + start, room, LA + 2 * factor * BLOCK, count)
                _add(grad_gates[b], factor * width + start, room, LB + 2 * factor * BLOCK, count)


@_compiled
def _derive(room: Array, terms: Array, slopes: Array, count: int) -> None:
    """The two numbers of the series and their derivatives."""
    for c in range(count):
        room[W + c], room[BEFORE + c] = 0, 0
        room[C0_MU + c], room[C1_MU + c], room[C1_D + c] = 0, 0, 0
    for m in range(len(terms)):
        k, slope, step = terms[m], slopes[m], terms.dtype.type(0.5 * m)
        for c in range(count):
            room[C0 + c] += k * room[U + c]
            room[C1 + c] += k * room[V + c]
            room[C0_MU + c] += slope * room[U + c]
            room[C1_MU + c] += slope * room[V + c]
            room[C1_D + c] += k * room[W + c]
            room[W + c] = step * room[BEFORE + c] + room[MU + c] * room[W + c]
            room[BEFORE + c] = room[V + c]
            u = room[MU + c] * room[U + c] + room[D + c] * room[V + c]
            room[V + c] = room[U + c] + room[MU + c] * room[V + c]
            room[U + c] = u


@_compiled
def _chain(room: Array, half: float, part: float, horizon: float, count: int) -> None:
    """From the gradient of the result to those of starts and gates, which take the places of both."""
    one_half = room.dtype.type(0.5)
    by = horizon * one_half
    for c in range(count):
        xa, xb, up = room[XA + c], room[XB + c], room[UP + c]
        ga, gb, e = room[GA + c], room[GB + c], room[E + c]
        c0, c1 = room[C0 + c], room[C1 + c]
        q, r = horizon * room[Q + c], horizon * room[R + c]
        g = horizon * up
        d_c0, d_c1 = g * ga, g * (e * ga + q * gb)
        d_ga, d_gb = g * (c0 + c1 * e), g * c1 * q
        d_mu = d_c0 * room[C0_MU + c] + d_c1 * room[C1_MU + c]
        d_d = one_half * d_c0 * room[C1_MU + c] + d_c1 * room[C1_D + c]
        d_e = g * c1 * ga + (e + e) * d_d
        d_q = horizon * (g * c1 * gb + r * d_d) + d_ga * xb
        d_r = horizon * q * d_d + d_gb * xa
        d_pa = by * (d_mu + d_e) + d_ga * xa
        d_pb = by * (d_mu - d_e) + d_gb * xb
        room[XA + c] = up + d_ga * (room[PA + c] + room[LA + c]) + d_gb * room[R + c]
        room[XB + c] = d_ga * room[Q + c] + d_gb * (room[PB + c] + room[LB + c])
        room[LA + c], room[LB + c] = d_ga * xa, d_gb * xb
        room[NA + c], room[NB + c] = half * d_pa + part * d_q, half * d_pb + part * d_r
        room[IA + c], room[IB + c] = -d_pa, -d_pb


flow: Callable[..., None] = _compiled(_flow)
flow_back: Callable[..., None] = _compiled(_flow_back)
