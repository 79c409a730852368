"""Find the events of nodes before times.

Entries of a node are in time order, so one bisection inside its segment answers a query, ties
included, and the last ``k`` entries before a time are consecutive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from contig.kernels.dispatch import backend
from contig.kernels.segments import Segments


class Neighbors(NamedTuple):
    """Past events of each queried node, the most recent first, each ``[queries, k]``.

    Where ``mask`` is false there is no such event: ``node`` is then the queried node itself,
    ``event`` 0 and ``time`` the time of the query, so that padding is always safe to use.
    """

    node: Tensor  # int64
    event: Tensor  # int64, position in the stream
    time: Tensor  # int64 or float64
    mask: Tensor  # bool


def latest_before(segments: Segments, nodes: Tensor, times: Tensor, k: int) -> Neighbors:
    """Return the last ``k`` entries of each node strictly before its time.

    ``times`` must have the dtype of the entries' times. A node without a segment has no entries.
    """
    compiled = backend(segments.device)
    if compiled == "numba":
        from contig.kernels.cpu import lookup as loops

        return Neighbors(*loops.latest_before(segments, nodes, times, k))
    if compiled == "triton":
        from contig.kernels.gpu import lookup as kernels

        index = (segments.start, segments.length, *_entries(segments))
        return Neighbors(*kernels.lookup(nodes.long(), times, *index, k, _rounds(segments)))
    return _latest_before(segments, nodes, times, k)


def count_before(segments: Segments, nodes: Tensor, times: Tensor) -> Tensor:
    """Return how many entries each node has strictly before its time."""
    return _bisect(segments, nodes, times)[1]


def sample_before(
    segments: Segments, nodes: Tensor, times: Tensor, k: int, generator: torch.Generator | None
) -> Neighbors:
    """Draw ``k`` distinct entries of each node strictly before its time, or all if there are fewer."""
    start, count = _bisect(segments, nodes, times)
    return _entries_back(segments, nodes, times, start, count, _distinct_draws(count, k, generator))


def partners_back(segments: Segments, nodes: Tensor, events: Tensor, steps: Sequence[int]) -> Tensor:
    """Return each node's partner ``step`` events before one of its events, ``[nodes, steps]``; -1 if none.

    Events are positions in the stream. Unlike times they have no ties, so this is the node's own sequence.
    """
    start, count = _bisect(segments, nodes, events, segments.entry_event)
    back = torch.tensor(list(steps), dtype=torch.int64, device=nodes.device)
    mask = back <= count.unsqueeze(1)
    at = torch.where(mask, (start + count).unsqueeze(1) - back, 0)
    return torch.where(mask, _at(segments.entry_node, at), -1)


def last_times(segments: Segments, nodes: Tensor) -> tuple[Tensor, Tensor]:
    """Return the time of each node's last event, 0 if there is none, and whether there is one."""
    known = (nodes >= 0) & (nodes < len(segments.start))
    safe = torch.where(known, nodes, 0)
    length = torch.where(known, _at(segments.length, safe), 0)
    at = torch.where(length > 0, _at(segments.start, safe) + length - 1, 0)
    times = segments.entry_time.new_zeros(len(nodes)) if not segments.used else segments.entry_time[at]
    return torch.where(length > 0, times, 0), length > 0


def _latest_before(segments: Segments, nodes: Tensor, times: Tensor, k: int) -> Neighbors:
    start, count = _bisect(segments, nodes, times)
    back = torch.arange(1, k + 1, device=nodes.device)
    return _entries_back(segments, nodes, times, start, count, back)


def _bisect(
    segments: Segments, nodes: Tensor, limits: Tensor, entries: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the start of each node's segment, and how many of its entries are strictly below its limit.

    Entries are ascending within a segment: their times, by default.
    """
    entries = segments.entry_time if entries is None else entries
    known = (nodes >= 0) & (nodes < len(segments.start))
    safe = torch.where(known, nodes, 0)
    start = _at(segments.start, safe)
    left = torch.where(known, _at(segments.length, safe), 0)
    low = torch.zeros_like(left)
    for _ in range(_rounds(segments)):
        half = (left + 1) >> 1
        probe = torch.where(half > 0, start + low + half - 1, 0)
        low = low + half * (_at(entries, probe) < limits)
        left = left - half
    return start, low


def _entries_back(
    segments: Segments, nodes: Tensor, times: Tensor, start: Tensor, count: Tensor, back: Tensor
) -> Neighbors:
    """Return the entries ``back`` ``[k]`` or ``[queries, k]`` steps before the end of the first ``count``."""
    mask = back <= count.unsqueeze(1)  # [queries, k]
    at = torch.where(mask, (start + count).unsqueeze(1) - back, 0)
    event, node, time = (_at(entries, at) for entries in _entries(segments))
    return Neighbors(
        node=torch.where(mask, node, nodes.unsqueeze(1)),
        event=torch.where(mask, event, 0),
        time=torch.where(mask, time, times.unsqueeze(1)),
        mask=mask,
    )


def _entries(segments: Segments) -> tuple[Tensor, Tensor, Tensor]:
    return segments.entry_event, segments.entry_node, segments.entry_time


def _rounds(segments: Segments) -> int:
    """Count the steps of bisection that the longest segment takes."""
    return segments.longest.bit_length()


def _at(values: Tensor, index: Tensor) -> Tensor:
    """Return ``values[index]``, integers as int64; zeros if there are no values at all."""
    if not len(values):
        return torch.zeros_like(index)
    picked = values[index]
    return picked if picked.dtype.is_floating_point else picked.long()


def _distinct_draws(count: Tensor, k: int, generator: torch.Generator | None) -> Tensor:
    """Draw, for each count ``c``, ``k`` distinct numbers of ``1..c`` in ascending order.

    Floyd's method: step ``j`` draws from one number more than the step before, and takes that
    additional number itself if the draw is already taken. Where ``c <= k`` the result is ``1..k``.
    """
    size = (len(count), k)
    chosen = torch.zeros(size, dtype=torch.int64, device=count.device)
    uniform = torch.rand(size, dtype=torch.float64, device=count.device, generator=generator)
    for j in range(k):
        top = count - k + 1 + j  # draw from 1..top
        draw = (uniform[:, j] * top).long() + 1
        taken = (chosen[:, :j] == draw.unsqueeze(1)).any(dim=1)
        chosen[:, j] = torch.where(taken, top, draw)
    everything = torch.arange(1, k + 1, device=count.device)
    return torch.where((count > k).unsqueeze(1), chosen.sort(dim=1).values, everything)
