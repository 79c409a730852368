"""How many distinct nodes a batch computes, counted before it runs.

On a GPU shapes are fixed before anything is counted, so each mention of a node would be computed again. But
which nodes a batch reads, and which they are linked to, does not depend on the weights: the batches of a
whole walk are counted first, in a few calls, and every step then gets as much room as the largest batch needs
(``contig.layers.unique``).
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
from contig.ranks import ranks
from contig.streaming.capture import has_fixed_shapes
from contig.streaming.schedule import Step, observe_size, schedule

MENTIONS_AT_ONCE = 2**22  # counted in one call; bounds its memory
MARKS_AT_ONCE = 2**26  # bytes of the table that marks the nodes of some batches
NODES_AT_ONCE = 2**17  # whose links are looked up in one call
SPARE = 1.25  # the next walk has other negatives
GRANULARITY = 128  # room comes in multiples of this

Ints = NDArray[np.int64]


class Counts(NamedTuple):
    """The distinct nodes of each whole batch of a walk, ``[batches]``; None for what was not counted."""

    read: Ints
    linked: Ints | None = None  # including the nodes they are linked to
    observed: Ints | None = None  # the same for the events that are observed after the batch


class Rooms(NamedTuple):
    """How many nodes a captured step has room for, in reading and in observing."""

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

    follows_links: bool  # whether it does so with these options

    def nodes_linked(
        self, state: NodeState | None, history: History, nodes: Tensor, as_of: Tensor, since: int
    ) -> Tensor:
        """Return the nodes ``[nodes, n]`` that these will be linked to at later times ``as_of``.

        By then the state has observed, in addition to what it knows now (nothing, if it is None), the events
        from position ``since`` on that come before ``as_of`` (``[nodes]``). A node itself fills empty places.
        """


def count_nodes(
    model: object,
    state: NodeState | None,
    history: History,
    events: Tensor,
    negative: Tensor,
    batch_size: int,
) -> Counts | None:
    """Count the distinct nodes of each whole batch of ``events`` and their ``negative`` ``[events, n]``.

    ``state`` is as it is before the walk over them, None if it knows nothing then. The result is None where
    there is nothing to gain: on a CPU, for several ranks, or for a model that reads only the nodes of its
    queries.
    """
    if not (events.is_cuda and ranks().alone) or len(events) < batch_size:
        return None
    if not (has_fixed_shapes(model) and isinstance(model, ReadsNeighbors)):
        return None
    return count_each_batch(model, state, history, events, negative, batch_size)


def count_each_batch(
    model: ReadsNeighbors,
    state: NodeState | None,
    history: History,
    events: Tensor,
    negative: Tensor,
    batch_size: int,
) -> Counts:
    """Count the nodes as ``count_nodes`` does, on any device."""
    links = _Links.of(model, state, history, events)
    steps = schedule(history.events["t"][events].cpu().numpy(), batch_size) if links else []
    read, linked, observed = [], [], []
    at_once = max(1, MENTIONS_AT_ONCE // (batch_size * (2 + negative.shape[1]) * 32))
    batches = len(events) // batch_size
    for start in range(0, batches, at_once):
        stop = min(start + at_once, batches)
        part = slice(start * batch_size, stop * batch_size)
        batch = EventBatch.of(history, events[part])
        nodes = torch.cat([batch.src.unsqueeze(1), batch.dst.unsqueeze(1), negative[part]], dim=1)
        found = model.nodes_read(history, nodes.flatten(), batch.t.repeat_interleave(nodes.shape[1]))
        mentions = found.view(stop - start, -1).sort(dim=1).values
        first = torch.ones_like(mentions, dtype=torch.bool)
        first[:, 1:] = mentions[:, 1:] != mentions[:, :-1]
        distinct = first.sum(dim=1)
        read.append(distinct)
        if links is not None:
            as_of = batch.t[::batch_size]
            linked.append(links.count(mentions[first], distinct, as_of))
            observed.append(links.count_observed(events, steps[start:stop], as_of, observe_size(batch_size)))
    if links is None:
        return Counts(_to_numpy(read))
    return Counts(_to_numpy(read), _to_numpy(linked), _to_numpy(observed))


@dataclass(frozen=True)
class _Links:
    """Counts nodes together with those they are linked to, for a walk from position ``since`` on."""

    model: FollowsLinks
    state: NodeState | None
    history: History
    since: int

    @classmethod
    def of(cls, model: object, state: NodeState | None, history: History, events: Tensor) -> _Links | None:
        """Return None if the model follows no links, or the state will not know every later event."""
        if not (isinstance(model, FollowsLinks) and model.follows_links and _cover(events, history)):
            return None
        return cls(model, state, history, int(events[0]))

    def count(self, nodes: Tensor, per_batch: Tensor, as_of: Tensor) -> Tensor:
        """Count the distinct nodes of each batch together with those they are linked to.

        The first ``per_batch[0]`` nodes are those of the first batch, and so on. ``as_of`` is the time of
        each batch.
        """
        counts, stops = [], per_batch.cumsum(0).tolist()
        at_once = max(1, MARKS_AT_ONCE // max(1, self.history.num_nodes))
        for start in range(0, len(stops), at_once):
            own = per_batch[start : start + at_once]
            some = nodes[stops[start] - int(own[0]) : stops[start + len(own) - 1]]
            counts.append(self._count_marked(some, own, as_of[start : start + at_once]))
        return torch.cat(counts)

    def _count_marked(self, nodes: Tensor, per_batch: Tensor, as_of: Tensor) -> Tensor:
        row = torch.repeat_interleave(per_batch)
        marked = torch.zeros(len(as_of), self.history.num_nodes, dtype=torch.bool, device=nodes.device)
        marked[row, nodes] = True
        for some, where in zip(nodes.split(NODES_AT_ONCE), row.split(NODES_AT_ONCE), strict=True):
            linked = self.model.nodes_linked(self.state, self.history, some, as_of[where], self.since)
            marked[where.unsqueeze(1), linked] = True
        return marked.sum(dim=1)

    def count_observed(self, events: Tensor, steps: Sequence[Step], as_of: Tensor, most: int) -> Tensor:
        """Count the ends of the events observed after each batch, with the nodes they are linked to.

        A batch that observes more than ``most`` events counts as 0: it is not run as a captured step.
        """
        begin, end = torch.tensor([step[2:] for step in steps], device=events.device).unbind(1)
        batch = EventBatch.of(self.history, events[begin[0] : end[-1]])
        ends = torch.stack([batch.src, batch.dst], dim=1).flatten()
        return torch.where(end - begin <= most, self.count(ends, 2 * (end - begin), as_of), 0)


def _cover(events: Tensor, history: History) -> bool:
    """Return whether these ascending positions, all in the history, are all it has from first to last."""
    if int(events[-1] - events[0]) == len(events) - 1:
        return True
    loops = int((history.events["src"][events] == history.events["dst"][events]).sum())
    return history.segments.used == 2 * len(events) - loops  # then the history has no others


def _to_numpy(counts: Sequence[Tensor]) -> Ints:
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
