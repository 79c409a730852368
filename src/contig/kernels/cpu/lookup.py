"""The loops of the history that are worth compiling for the CPU.

Plain Python over numpy arrays, compiled by numba on first use and cached on disk. The torch
operations in ``history.py`` compute the same on a GPU and are what these are tested against.
Places are unsigned, since numba looks at every signed index for a count from the end.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit

from contig.data.columns import Array
from contig.kernels.accelerators import in_parallel, ranges

PART = 4096  # queries; waking a thread costs about as much as answering some hundreds


def _place(
    entry_event: Array,
    entry_node: Array,
    entry_time: Array,
    start: Array,
    length: Array,
    room: Array,
    numbers: Array,
    src: Array,
    dst: Array,
    t: Array,
    first: int,
    used: int,
) -> tuple[int, int, int]:
    """Put the events from row ``first`` on into the segments of their two nodes.

    Returns the row to go on from, how much of the pool is used, and how long the pool must be for
    going on (0 when all is done). An event of a node with itself is one entry.
    """
    for i in range(first, len(numbers)):
        for v in (src[i], dst[i]):
            held = length[v]
            if held == room[v]:
                more = 2 * (held + 1)
                if used + more > len(entry_event):
                    return i, used, used + more
                old = start[v]
                for j in range(held):
                    entry_event[used + j] = entry_event[old + j]
                    entry_node[used + j] = entry_node[old + j]
                    entry_time[used + j] = entry_time[old + j]
                start[v], room[v] = used, more
                used += more
        for v, other in ((src[i], dst[i]), (dst[i], src[i])):
            at = start[v] + length[v]
            entry_event[at], entry_node[at], entry_time[at] = numbers[i], other, t[i]
            length[v] += 1
            if src[i] == dst[i]:
                break
    return len(numbers), used, 0


def _find(
    entry_time: Array, start: Array, length: Array, nodes: Array, times: Array, first: Array, end: Array
) -> None:
    """Where each node's segment begins, and where in it the entries before its time end."""
    one, step = np.uint64(1), np.zeros(2, np.uint64)
    for i in range(len(nodes)):
        first[i] = end[i] = 0
        if 0 <= nodes[i] < len(start):
            first[i] = at = np.uint64(start[nodes[i]])
            left = np.uint64(length[nodes[i]])
            while left > 0:
                # Steps come from a table: an if, or what the compiler takes for one, is a coin toss
                # to the processor, and a wrong guess costs as much as three of these rounds.
                half = step[1] = (left + one) >> one
                at += step[np.int64(entry_time[at + half - one] < times[i])]
                left -= half
            end[i] = at


def _take(entries: Array, first: Array, end: Array, padding: Array, out: Array) -> None:
    """The last ``k`` entries of each ``first..end``, the latest first, then padding: ``[queries, k]``."""
    k, one = np.uint64(out.shape[1]), np.uint64(1)
    for i in range(len(out)):
        found = min(end[i] - first[i], k)
        for j in range(found):
            out[i, j] = entries[end[i] - one - j]
        for j in range(found, k):
            out[i, j] = padding[i]


def _mark(first: Array, end: Array, out: Array) -> None:
    """Which places ``_take`` fills with entries."""
    for i in range(len(out)):
        for j in range(np.uint64(out.shape[1])):
            out[i, j] = j < end[i] - first[i]


find: Callable[..., None] = njit(cache=True, nogil=True)(_find)
take: Callable[..., None] = njit(cache=True, nogil=True)(_take)
mark: Callable[..., None] = njit(cache=True, nogil=True)(_mark)


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
) -> None:
    """Fill the outputs ``[queries, k]`` with the last ``k`` events strictly before each time.

    One loop per column is faster than one loop for all: each keeps to its own memory.
    """
    first, end = np.empty(len(nodes), np.uint64), np.empty(len(nodes), np.uint64)
    find(entry_time, start, length, nodes, times, first, end)
    take(entry_node, first, end, nodes, out_node)
    take(entry_event, first, end, np.zeros(len(nodes), np.int64), out_event)
    take(entry_time, first, end, times, out_time)
    mark(first, end, out_mask)


place: Callable[..., tuple[int, int, int]] = njit(cache=True, nogil=True)(_place)
_lookup_part: Callable[..., None] = njit(cache=True, nogil=True)(_lookup)


def lookup(
    index: tuple[Array, ...], queries: tuple[Array, ...], out: tuple[Array, ...], threads: int
) -> None:
    """``_lookup`` of all queries, in parts side by side where there are enough of them."""
    count = len(queries[0])

    def answer(first: int, end: int) -> None:
        _lookup_part(*index, *(x[first:end] for x in (*queries, *out)))

    in_parallel(answer, ranges(count, min(threads, count // PART)))
