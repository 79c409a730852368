"""Appending events to the segments of their nodes, one event after the other."""

from __future__ import annotations

from numba import njit
from torch import Tensor

from contig.data.columns import Array
from contig.kernels.segments import Segments


def place(segments: Segments, event: Tensor, src: Tensor, dst: Tensor, time: Tensor) -> None:
    """Compute ``contig.kernels.placement.place``."""
    rows = [column.contiguous().numpy() for column in (event, src.long(), dst.long(), time)]
    done = 0
    while done < len(event):
        done, segments.used, needed = _place(*segments.as_numpy, *rows, done, segments.used)
        segments.reserve_entries(needed)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _place(
    entry_event: Array,
    entry_node: Array,
    entry_time: Array,
    start: Array,
    length: Array,
    capacity: Array,
    event: Array,
    src: Array,
    dst: Array,
    time: Array,
    first: int,
    used: int,
) -> tuple[int, int, int]:
    """Append the events from row ``first`` on, until the pool is too short.

    Returns the row to continue from, how much of the pool is in use, and how long the pool must be
    to continue (0 when all rows are done).
    """
    for i in range(first, len(event)):
        for v in (src[i], dst[i]):
            held = length[v]
            if held == capacity[v]:
                more = 2 * (held + 1)
                if used + more > len(entry_event):
                    return i, used, used + more
                old = start[v]
                for j in range(held):
                    entry_event[used + j] = entry_event[old + j]
                    entry_node[used + j] = entry_node[old + j]
                    entry_time[used + j] = entry_time[old + j]
                start[v], capacity[v] = used, more
                used += more
        for v, other in ((src[i], dst[i]), (dst[i], src[i])):
            at = start[v] + length[v]
            entry_event[at], entry_node[at], entry_time[at] = event[i], other, time[i]
            length[v] += 1
            if src[i] == dst[i]:
                break
    return len(event), used, 0


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def place_entries(
    entry_event: Array,
    entry_node: Array,
    entry_time: Array,
    cursor: Array,
    first_node: int,
    first_event: int,
    src: Array,
    dst: Array,
    time: Array,
) -> None:
    """Compute ``contig.kernels.placement.place_entries``."""
    for i in range(len(src)):
        for owner, other in ((src[i], dst[i]), (dst[i], src[i])):
            node = owner - first_node
            if 0 <= node < len(cursor):
                at = cursor[node]
                entry_event[at], entry_node[at], entry_time[at] = first_event + i, other, time[i]
                cursor[node] = at + 1
            if src[i] == dst[i]:
                break
