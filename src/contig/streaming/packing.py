"""How many distinct nodes a batch computes, counted before it runs.

On a GPU shapes are fixed before anything is counted, so each mention of a node would be computed again. But
which nodes a batch reads depends on no weight: the batches of a whole walk are counted first, in a few
calls, and every step then gets as much room as the largest batch needs (``contig.layers.unique``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contig.history import History
from contig.models.contract import EventBatch
from contig.models.state import Room
from contig.streaming.capture import has_fixed_shapes
from contig.streaming.schedule import Step

MENTIONS_AT_ONCE = 2**22  # counted in one call; bounds its memory
MARKS_AT_ONCE = 2**26  # bytes that mark the nodes of some batches
SPARE = 1.25  # the next walk has other negatives
GRANULARITY = 128  # room comes in multiples of this

Ints = NDArray[np.int64]


class Counts(NamedTuple):
    """The distinct nodes of each whole batch of a walk, ``[batches]``; None for what was not counted."""

    read: Ints
    linked: Ints | None = None  # with the nodes that they are linked to
    observed: Ints | None = None  # the same for the events that are observed after the batch


class Rooms(NamedTuple):
    """The room of a captured step."""

    reading: Room
    observing: Room


@runtime_checkable
class ReadsNeighbors(Protocol):
    """A model whose ``embed`` computes the vectors of other nodes than those it is called for."""

    def nodes_read(self, history: History, nodes: Tensor, times: Tensor) -> Tensor:
        """Return the nodes ``[queries, n]`` whose vectors ``embed`` computes for these queries."""


@runtime_checkable
class FollowsLinks(Protocol):
    """A model whose state links nodes with others, which it then computes too."""

    def nodes_linked(self, history: History, nodes: Tensor, as_of: Tensor) -> Tensor:
        """Return the nodes ``[nodes, n]`` that these are linked to; a node itself fills empty places.

        The state has observed every event of the history before ``as_of`` ``[nodes]``, and no other.
        """


def count_nodes(
    model: object,
    history: History,
    events: Tensor,
    negative: Tensor,
    batch_size: int,
    steps: Sequence[Step] = (),
) -> Counts | None:
    """Count the distinct nodes of each whole batch of ``events`` and ``negative`` ``[events, n]``.

    Linked nodes are counted if the ``steps`` of a walk over all events of the history are given: then the
    state knows what the history knows. None where there is nothing to gain: on a CPU, or for a model that
    reads only the nodes of its queries.
    """
    if not events.is_cuda or len(events) < batch_size:
        return None
    if not (has_fixed_shapes(model) and isinstance(model, ReadsNeighbors)):
        return None
    return count_on_any_device(model, history, events, negative, batch_size, steps)


def count_on_any_device(
    model: ReadsNeighbors,
    history: History,
    events: Tensor,
    negative: Tensor,
    batch_size: int,
    steps: Sequence[Step] = (),
) -> Counts:
    """Count the nodes as ``count_nodes`` does."""
    links = model if steps and isinstance(model, FollowsLinks) else None
    read, linked = [], []
    at_once = batch_size * max(1, MENTIONS_AT_ONCE // (batch_size * (2 + negative.shape[1]) * 32))
    whole = len(events) // batch_size * batch_size
    for start in range(0, whole, at_once):
        part = slice(start, min(start + at_once, whole))
        batch = EventBatch.of(history, events[part])
        nodes = torch.cat([batch.src.unsqueeze(1), batch.dst.unsqueeze(1), negative[part]], dim=1)
        found = model.nodes_read(history, nodes.flatten(), batch.t.repeat_interleave(nodes.shape[1]))
        mentions = found.view(len(batch.src) // batch_size, -1).sort(dim=1).values
        first = torch.ones_like(mentions, dtype=torch.bool)
        first[:, 1:] = mentions[:, 1:] != mentions[:, :-1]
        distinct = first.sum(dim=1)
        read.append(distinct)
        if links is not None:
            linked.append(_count_linked(links, history, mentions[first], distinct, batch.t[::batch_size]))
    if links is None:
        return Counts(_together(read))
    return Counts(_together(read), _together(linked), _count_observed(links, history, events, steps))


def _count_observed(model: FollowsLinks, history: History, events: Tensor, steps: Sequence[Step]) -> Ints:
    """Count the ends of the events observed after each batch, with the nodes they are linked to."""
    begin, end = torch.tensor([step[2:] for step in steps], device=events.device).unbind(1)
    observed = EventBatch.of(history, events)  # in this order: all of them, one batch after the other
    ends = torch.stack([observed.src, observed.dst], dim=1).flatten()
    as_of = observed.t[begin.clamp(max=len(events) - 1)]  # of a batch that observes nothing it is not used
    return _together([_count_linked(model, history, ends, 2 * (end - begin), as_of)])


def _count_linked(
    model: FollowsLinks, history: History, nodes: Tensor, per_batch: Tensor, as_of: Tensor
) -> Tensor:
    """Count the distinct nodes of each batch together with those they are linked to.

    The first ``per_batch[0]`` nodes are those of the first batch, and so on. Node 0 is always among them: it
    fills the room that is left (``contig.layers.unique``).
    """
    counts, stops = [], per_batch.cumsum(0).tolist()
    at_once = max(1, MARKS_AT_ONCE // max(1, history.num_nodes))
    for start in range(0, len(stops), at_once):
        times, own = as_of[start : start + at_once], per_batch[start : start + at_once]
        batches = torch.arange(len(times), device=nodes.device)
        some = nodes[stops[start] - int(own[0]) : stops[start + len(times) - 1]]
        some = torch.cat([some, torch.zeros_like(batches)])
        row = torch.cat([batches.repeat_interleave(own), batches])
        marked = torch.zeros(len(times), history.num_nodes, dtype=torch.bool, device=nodes.device)
        marked[row, some] = True
        for part in torch.arange(len(some), device=nodes.device).split(MENTIONS_AT_ONCE // 32):
            linked = model.nodes_linked(history, some[part], times[row[part]])
            marked[row[part].unsqueeze(1), linked] = True
        counts.append(marked.sum(dim=1))
    return torch.cat(counts)


def _together(counts: Sequence[Tensor]) -> Ints:
    return torch.cat(list(counts)).cpu().numpy()


def rooms_needed(counts: Counts | None) -> Rooms | None:
    """Return the room for the largest of these batches and somewhat larger ones."""
    if counts is None:
        return None
    read, linked, observed = map(_room_needed, counts)
    return Rooms(Room(read, linked), Room(linked=observed))


def _room_needed(counts: Ints | None) -> int | None:
    if counts is None:
        return None
    return GRANULARITY * -(-int(SPARE * int(counts.max())) // GRANULARITY)


def fits(counts: Counts | None, batch: int, rooms: Rooms | None) -> bool:
    """Return whether the nodes of this batch fit into the rooms; a batch that was not counted does not."""
    if rooms is None:
        return True
    if counts is None or batch >= len(counts.read):
        return False
    limits = (*rooms.reading, rooms.observing.linked)
    return all(
        limit is None or (found is not None and int(found[batch]) <= limit)
        for found, limit in zip(counts, limits, strict=True)
    )
