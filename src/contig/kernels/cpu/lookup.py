"""Finding the last entries of nodes before times.

Positions are unsigned: numba checks every signed index for being negative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from contig.data.columns import Array
from contig.kernels.cpu.launch import run_loop
from contig.kernels.segments import Segments

MIN_QUERIES = 4096  # per thread; waking one costs about as much as some hundred queries
BLOCK = 32  # queries whose cache misses overlap
ROUNDS_TOGETHER = 3  # the later ones of most bisections stay within a cache line

_compile: Callable[[Any], Any] = njit(cache=True, nogil=True)


def latest_before(segments: Segments, nodes: Tensor, times: Tensor, k: int) -> tuple[Tensor, ...]:
    """Compute ``contig.kernels.lookup.latest_before``."""
    # numpy requests huge pages and torch does not: large results take far fewer page faults
    *index, _ = segments.as_numpy  # all but the capacity
    dtypes = (np.int64, np.int64, index[2].dtype, np.bool_)
    out = [np.empty((len(nodes), k), dtype) for dtype in dtypes]
    run_loop(_lookup, (*index, nodes.long(), times), out, items=len(nodes), min_items=MIN_QUERIES)
    return tuple(map(torch.from_numpy, out))


@_compile
def _find(
    entry_time: Array, start: Array, length: Array, nodes: Array, times: Array, first: Array, end: Array
) -> None:
    """Find where each node's segment begins, and where in it the entries before its time end.

    Queries of a block take the first rounds of their bisections together: those miss the caches in a large
    index, and independent misses overlap. The steps come from a table, since a branch, even one that the
    compiler introduces, is mispredicted half of the time, and that costs as much as three of these rounds.
    """
    zero, one, step = np.uint64(0), np.uint64(1), np.zeros(2, np.uint64)
    left = np.zeros(BLOCK, np.uint64)
    rounds = ROUNDS_TOGETHER if len(entry_time) else 0  # a finished bisection reads the first entry
    for begin in range(0, len(nodes), BLOCK):
        block = range(begin, min(begin + BLOCK, len(nodes)))
        for i in block:
            known = 0 <= nodes[i] < len(start)
            first[i] = end[i] = np.uint64(start[nodes[i]]) if known else zero
            left[i - begin] = np.uint64(length[nodes[i]]) if known else zero
        for _ in range(rounds):
            for i in block:
                half = step[1] = (left[i - begin] + one) >> one
                probe = end[i] + half - one if half > zero else zero
                end[i] += step[np.int64(entry_time[probe] < times[i])]
                left[i - begin] -= half
        for i in block:
            at, rest = end[i], left[i - begin]
            while rest > zero:
                half = step[1] = (rest + one) >> one
                at += step[np.int64(entry_time[at + half - one] < times[i])]
                rest -= half
            end[i] = at


@_compile
def _copy_last(entries: Array, first: Array, end: Array, padding: Array, out: Array) -> int:
    """Copy the last ``k`` entries of each ``first..end`` to ``out``, the latest first, then padding.

    The ends of what a block copies are read beforehand, so that their cache misses overlap. The result says
    how many of them differ; without it, the compiler would leave these reads out.
    """
    k, zero, one = np.uint64(out.shape[1]), np.uint64(0), np.uint64(1)
    touched = 0
    for begin in range(0, len(out), BLOCK):
        block = range(begin, min(begin + BLOCK, len(out)))
        for i in block:
            found = min(end[i] - first[i], k)
            if found > zero:
                touched += entries[end[i] - one] != entries[end[i] - found]
        for i in block:
            found = min(end[i] - first[i], k)
            for j in range(found):
                out[i, j] = entries[end[i] - one - j]
            for j in range(found, k):
                out[i, j] = padding[i]
    return touched


@_compile
def _mark_found(first: Array, end: Array, out: Array) -> None:
    """Mark which places ``_copy_last`` fills with entries."""
    for i in range(len(out)):
        for j in range(np.uint64(out.shape[1])):
            out[i, j] = j < end[i] - first[i]


@_compile
def _lookup(
    entry_event: Array,
    entry_node: Array,
    entry_time: Array,
    start: Array,
    length: Array,
    nodes: Array,
    times: Array,
    out_node: Array,
    out_event: Array,
    out_time: Array,
    out_mask: Array,
    low: int,
    high: int,
) -> None:
    """Fill rows ``low..high`` of the outputs with the last ``k`` entries strictly before each time.

    One loop per column is faster than one loop for all of them: each keeps to its own memory.
    """
    nodes, times = nodes[low:high], times[low:high]
    first, end = np.empty(len(nodes), np.uint64), np.empty(len(nodes), np.uint64)
    _find(entry_time, start, length, nodes, times, first, end)
    _copy_last(entry_node, first, end, nodes, out_node[low:high])
    _copy_last(entry_event, first, end, np.zeros(len(nodes), np.int64), out_event[low:high])
    _copy_last(entry_time, first, end, times, out_time[low:high])
    _mark_found(first, end, out_mask[low:high])
