"""How many distinct nodes a batch computes, counted before it runs.

On a GPU shapes are fixed before anything is counted, so each mention of a node would be computed again. But
which nodes a batch reads depends on no weight: the batches of a whole walk are counted first, in a few
calls, and every step then gets as much room as the largest batch needs (``contig.layers.unique``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contig.history import History
from contig.models.contract import EventBatch
from contig.models.state import NodeState, Room
from contig.streaming.capture import has_fixed_shapes
from contig.streaming.schedule import schedule

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

    def nodes_linked(
        self, state: NodeState, history: History, nodes: Tensor, as_of: Tensor, since: int
    ) -> Tensor:
        """Return the nodes ``[nodes, n]`` that these will be linked to at later times ``as_of``.

        By then the state has observed, in addition to what it knows now, the events from position ``since``
        on that come before ``as_of`` (``[nodes]``). A node itself fills empty places.
        """


def count_nodes(
    model: object, state: NodeState, history: History, events: Tensor, negative: Tensor, batch_size: int
) -> Counts | None:
    """Count the distinct nodes of each whole batch of ``events`` and their ``negative`` ``[events, n]``.

    ``state`` is as it is before the walk over them. None where there is nothing to gain: on a CPU, or for a
    model that reads only the nodes of its queries.
    """
    if not events.is_cuda or len(events) < batch_size:
        return None
    if not (has_fixed_shapes(model) and isinstance(model, ReadsNeighbors)):
        return None
    return count_on_any_device(model, state, history, events, negative, batch_size)


def count_on_any_device(
    model: ReadsNeighbors,
    state: NodeState,
    history: History,
    events: Tensor,
    negative: Tensor,
    batch_size: int,
) -> Counts:
    """Count the nodes as ``count_nodes`` does."""
    links = _Links.of(model, state, history, events)
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
            linked.append(links.count(mentions[first], distinct, batch.t[::batch_size]))
    if links is None:
        return Counts(_together(read))
    return Counts(_together(read), _together(linked), _together([links.count_observed(events, batch_size)]))


@dataclass(frozen=True)
class _Links:
    """Counts nodes together with those they are linked to, for a walk from position ``since`` on."""

    model: FollowsLinks
    state: NodeState
    history: History
    since: int

    @classmethod
    def of(cls, model: object, state: NodeState, history: History, events: Tensor) -> _Links | None:
        """Return None unless the state observes every later event of the history."""
        if not (isinstance(model, FollowsLinks) and _leave_nothing_out(events, history)):
            return None
        return cls(model, state, history, int(events[0]))

    def count(self, nodes: Tensor, per_batch: Tensor, as_of: Tensor) -> Tensor:
        """Count the distinct nodes of each batch together with those they are linked to.

        The first ``per_batch[0]`` nodes are those of the first batch, and so on. ``as_of`` is the time of
        each batch. Node 0 is always among them: it fills the room that is left (``contig.layers.unique``).
        """
        counts, stops = [], per_batch.cumsum(0).tolist()
        at_once = max(1, MARKS_AT_ONCE // max(1, self.history.num_nodes))
        for start in range(0, len(stops), at_once):
            own = per_batch[start : start + at_once]
            some = nodes[stops[start] - int(own[0]) : stops[start + len(own) - 1]]
            counts.append(self._count_marked(some, own, as_of[start : start + at_once]))
        return torch.cat(counts)

    def _count_marked(self, nodes: Tensor, per_batch: Tensor, as_of: Tensor) -> Tensor:
        batches = torch.arange(len(per_batch), device=nodes.device)
        row = torch.cat([batches.repeat_interleave(per_batch), batches])
        nodes = torch.cat([nodes, torch.zeros_like(batches)])
        marked = torch.zeros(len(batches), self.history.num_nodes, dtype=torch.bool, device=nodes.device)
        marked[row, nodes] = True
        for part in torch.arange(len(nodes), device=nodes.device).split(max(1, MENTIONS_AT_ONCE // 32)):
            times = as_of[row[part]]
            linked = self.model.nodes_linked(self.state, self.history, nodes[part], times, self.since)
            marked[row[part].unsqueeze(1), linked] = True
        return marked.sum(dim=1)

    def count_observed(self, events: Tensor, batch_size: int) -> Tensor:
        """Count the ends of the events observed after each batch, with the nodes they are linked to."""
        batch = EventBatch.of(self.history, events)  # all are observed, in this order
        steps = schedule(batch.t.cpu().numpy(), batch_size)
        begin, end = torch.tensor([step[2:] for step in steps], device=events.device).unbind(1)
        ends = torch.stack([batch.src, batch.dst], dim=1).flatten()
        as_of = batch.t[begin.clamp(max=len(events) - 1)]  # not used where nothing is observed
        return self.count(ends, 2 * (end - begin), as_of)


def _leave_nothing_out(events: Tensor, history: History) -> bool:
    """Return whether these ascending positions are all that the history has from the first to the last."""
    if int(events[-1] - events[0]) == len(events) - 1:
        return True
    loops = int((history.events["src"][events] == history.events["dst"][events]).sum())
    return history.segments.used == 2 * len(events) - loops  # then the history has no others


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
