"""Append events to the segments of their nodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from contig.data.columns import Array
from contig.kernels.dispatch import backend
from contig.kernels.segments import ENTRIES, Segments, concatenated_ranges


def place(segments: Segments, event: Tensor, src: Tensor, dst: Tensor, time: Tensor) -> None:
    """Append events in stream order to the segments of both ends, which must exist already.

    An event of a node with itself is one entry.
    """
    if not len(event):
        return
    if backend(segments.device) == "numba":
        from contig.kernels.cpu import placement as compiled

        compiled.place(segments, event, src, dst, time)
    else:
        _place(segments, event, src, dst, time)
    longest = torch.maximum(segments.length[src], segments.length[dst]).max()
    segments.longest = max(segments.longest, int(longest))


def _place(segments: Segments, event: Tensor, src: Tensor, dst: Tensor, time: Tensor) -> None:
    owner, other, row = _entries_by_owner(src, dst)
    owners, added = torch.unique_consecutive(owner, return_counts=True)
    _make_space(segments, owners, added)
    at = concatenated_ranges(segments.start[owners] + segments.length[owners], added)
    segments.entry_event[at] = event[row].to(segments.entry_event.dtype)
    segments.entry_node[at] = other
    segments.entry_time[at] = time[row]
    segments.length[owners] += added


def _entries_by_owner(src: Tensor, dst: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return owner, other end and event row of every entry, by owner and then in stream order."""
    ends = torch.stack([src, dst], dim=1).flatten().int()  # 2i is row i's source, 2i + 1 its destination
    owner, place = torch.sort(ends, stable=True)
    row = place >> 1
    self_loop = src == dst
    if bool(self_loop.any()):
        once = (place & 1 == 0) | ~self_loop[row]
        owner, place, row = owner[once], place[once], row[once]
    return owner, ends[place ^ 1], row


def _make_space(segments: Segments, owners: Tensor, added: Tensor) -> None:
    """Move every segment that would overflow to the end of the pool, with twice the capacity it needs."""
    need = segments.length[owners] + added
    full = need > segments.capacity[owners]
    movers, capacity = owners[full], 2 * need[full]
    if not len(movers):
        return
    offset = torch.cumsum(capacity, 0)
    target = segments.used + offset - capacity
    used = segments.used + int(offset[-1])
    held = segments.length[movers]
    source, into = concatenated_ranges(segments.start[movers], held), concatenated_ranges(target, held)
    segments.reserve_entries(used)
    for name in ENTRIES:
        entries = getattr(segments, name)
        entries[into] = entries[source]
    segments.start[movers], segments.capacity[movers] = target, capacity
    segments.used = used


def place_entries(
    entries: Sequence[Array],
    cursor: Array,
    first_node: int,
    first_event: int,
    src: Array,
    dst: Array,
    t: Array,
) -> None:
    """Write the entries of consecutive events that belong to consecutive nodes, to numpy arrays.

    ``entries`` are event, other end and time; ``cursor`` is where the next entry of each node goes, from
    ``first_node`` on, and is advanced. Events are numbered from ``first_event`` on.
    """
    if backend(torch.device("cpu")) == "numba":
        from contig.kernels.cpu import placement as compiled

        compiled.place_entries(*entries, cursor, first_node, first_event, src, dst, t)
    else:
        _place_entries(entries, cursor, first_node, first_event, src, dst, t)


def _place_entries(
    entries: Sequence[Array],
    cursor: Array,
    first_node: int,
    first_event: int,
    src: Array,
    dst: Array,
    t: Array,
) -> None:
    owner, other = np.stack([src, dst], axis=1).ravel(), np.stack([dst, src], axis=1).ravel()
    row = np.arange(len(owner)) >> 1
    twice = (owner == other) & (np.arange(len(owner)) & 1 == 1)
    wanted = np.flatnonzero((owner >= first_node) & (owner < first_node + len(cursor)) & ~twice)
    order = wanted[np.argsort(owner[wanted], kind="stable")]
    nodes, starts, counts = np.unique(owner[order] - first_node, return_index=True, return_counts=True)
    at = np.arange(len(order)) + np.repeat(cursor[nodes] - starts, counts)
    entries[0][at], entries[1][at], entries[2][at] = first_event + row[order], other[order], t[row[order]]
    cursor[nodes] += counts
