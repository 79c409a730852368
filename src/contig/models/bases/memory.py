"""Models with a memory: a vector per node that its events update.

A node's latest event is stored by its position and enters the vector only when the node is read
next. So gradients reach the weights of the update, although the stored vectors carry none.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from contig.history import History
from contig.kernels.gather import LazyRows, gather_rows
from contig.layers import LogTimeEncoding
from contig.layers.unique import mentioned, packed
from contig.models.bases.events import AttentionReadout, EventModel
from contig.models.contract import DataShape, EventBatch
from contig.models.state import NodeState


class Latest(NamedTuple):
    """The latest observed event of each node; every field is ``[nodes]``."""

    exists: Tensor
    partner: Tensor  # the node itself if there is no event
    event: Tensor  # 0 if there is none
    time: Tensor  # 0 if there is none


class MemoryModel(EventModel):
    """Stores ``h`` (a vector) and ``last`` (the position of the latest event) per node.

    A subclass defines ``updated``, the vector with the latest event applied. ``observe`` stores that
    vector for the nodes of a batch and sets their latest events to those of the batch.
    """

    independent_rows: bool = (
        False  # whether ``updated`` computes each node independently of the others in a call
    )
    cheap_rows: bool = False  # whether ranks read faster if each computes all nodes that it needs by itself

    def blank(self) -> Mapping[str, Tensor]:
        return {"h": torch.zeros(self.dim), "last": torch.tensor(-1)}

    @abstractmethod
    def updated(self, state: NodeState, history: History, nodes: Tensor, as_of: Tensor) -> Tensor:
        """Return the vectors ``[nodes, d]`` at ``as_of``, with the nodes' latest events applied."""

    @torch.no_grad()
    def observe(self, state: NodeState, history: History, batch: EventBatch) -> None:
        if not len(batch.event):
            return
        ends = torch.cat([batch.src, batch.dst])
        nodes = mentioned(ends, state.num_nodes)
        # repeated nodes get equal rows
        state["h"][nodes] = self._remembered(state, history, nodes, batch.as_of)
        if "before_last" in state.rows:
            state["before_last"][nodes] = state["last"][nodes]
        state["last"].scatter_reduce_(0, ends, batch.event.repeat(2), "amax")

    def _remembered(self, state: NodeState, history: History, nodes: Tensor, as_of: Tensor) -> Tensor:
        """Return ``updated``, of which the state may remember rows: they do not depend on the new events."""
        if state.updates is None:
            return self.updated(state, history, nodes, as_of)
        return state.updates.rows(nodes, as_of, lambda new: self.updated(state, history, new, as_of))

    def read_updated(self, state: NodeState, history: History, nodes: Tensor, as_of: Tensor) -> Tensor:
        """Return ``updated`` for ``embed``; ranks that train together divide the nodes."""
        if state.reads is None:
            return self.updated(state, history, nodes, as_of)
        return state.reads.rows(nodes, as_of, lambda some: self.updated(state, history, some, as_of))

    def grouping_key(self, state: NodeState, history: History, nodes: Tensor) -> Tensor:
        """Return a number ``[nodes]`` for each node; those with equal ones are cheaper to compute together.

        Ranks divide the nodes of a batch in the order of these numbers.
        """
        return nodes

    def latest(self, state: NodeState, history: History, nodes: Tensor) -> Latest:
        """Look up the latest observed event of each node."""
        last = state["last"][nodes]
        exists = last >= 0
        event = last.clamp(min=0)
        columns = history.events
        if not columns.count:
            return Latest(exists, nodes, event, columns["t"].new_zeros(len(nodes)))
        partner = torch.where(exists, columns["src"][event] + columns["dst"][event] - nodes, nodes)
        return Latest(exists, partner, event, torch.where(exists, columns["t"][event], 0))


class RecurrentMemory(MemoryModel):
    """A memory that a recurrent cell updates, as in TGN.

    It also stores ``before_last``, the last event that the vector contains: the interval from there to the
    latest event is part of the message.
    """

    independent_rows = True

    def blank(self) -> Mapping[str, Tensor]:
        return {**super().blank(), "before_last": torch.tensor(-1)}

    def interval(self, state: NodeState, history: History, nodes: Tensor, latest: Latest) -> Tensor:
        """Return the time from ``before_last`` to the latest event in float32; 0 without ``before_last``."""
        before = state["before_last"][nodes]
        if not history.num_events:
            return torch.zeros(len(nodes), device=nodes.device)
        since = history.events["t"][before.clamp(min=0)]
        return torch.where(before >= 0, self.elapsed(latest.time, since), 0.0)

    def message(
        self, state: NodeState, history: History, nodes: Tensor, latest: Latest, *others: Tensor
    ) -> list[Tensor]:
        """Return the message of the latest event, ``[others | f | Phi(interval) | x]``, in parts."""
        interval = self.interval(state, history, nodes, latest)
        features = self.event_features(history, latest.event)
        return [*others, features, self.phi(interval), self.features_of(nodes)]


Intervals = Literal["events", "time"]


class PacedMemory(RecurrentMemory):
    """A recurrent memory that can measure intervals in events of the whole stream, on a logarithmic scale.

    For models whose vectors are constant between events and nearly all they know about a node, as in JODIE
    and DyRep. In seconds, the intervals of active nodes grow when a stream slows down, until they look like
    those of idle nodes in its busy time, and what was learned misleads. Counted in events, the scale on
    which a point process has a constant total rate, intervals keep their meaning. ``time`` measures them in
    time, as the papers do.
    """

    def __init__(self, dim: int, time_dim: int, data: DataShape, intervals: Intervals) -> None:
        super().__init__(dim, time_dim, data)
        self.counts_events = intervals == "events"
        if self.counts_events:
            self.phi = LogTimeEncoding(time_dim, fastest=4.0, slowest=0.05)

    def interval(self, state: NodeState, history: History, nodes: Tensor, latest: Latest) -> Tensor:
        """Return the interval from ``before_last`` to the latest event; 0 without ``before_last``."""
        if not self.counts_events:
            return super().interval(state, history, nodes, latest)
        before = state["before_last"][nodes]
        return torch.where(before >= 0, (latest.event - before).float(), 0.0)


class AttentiveMemory(MemoryModel):
    """A memory that is read by attention over the last ``neighbors`` events, as in TGN and ConTIG."""

    neighbors: int
    readout: AttentionReadout

    def query_time(self, times: Tensor) -> Tensor:
        """Return the time encoding of the query itself, ``[1 or queries, time_dim]``."""
        return self.time_now()

    def nodes_read(self, history: History, nodes: Tensor, times: Tensor) -> Tensor:
        """Return the nodes ``[queries, 1 + k]`` that ``embed`` reads (for ``contig.streaming.packing``)."""
        near = history.before(nodes, times, self.neighbors)
        return torch.cat([nodes.unsqueeze(1), near.node], dim=1)

    def embed(
        self, state: NodeState, history: History, nodes: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        near = history.before(nodes, times, self.neighbors)
        read = torch.cat([nodes, near.node.flatten()])
        unique, place = packed(read, state.num_nodes, state.room.read, fixed_shapes=self.fixed_shapes)
        updated = self.read_updated(state, history, unique, as_of)  # [unique, d]
        own = gather_rows(updated, place[: len(nodes)])
        where = place[len(nodes) :].view(near.node.shape)
        slots = slots_in_use(near.mask)
        theirs = LazyRows(updated, where[:, :slots].contiguous())
        ages = self.phi(self.elapsed(times.unsqueeze(1), near.time[:, :slots]))
        features = self.feature_rows(history, near.event[:, :slots].contiguous())
        mask = near.mask[:, :slots].contiguous()
        merged: Tensor = self.readout(own, self.query_time(times), theirs, features, ages, mask)
        return merged


def slots_in_use(mask: Tensor) -> int:
    """Return how many of the slots of events ``[queries, k]`` to read, at least 1; later ones are all empty.

    Gradients and captured steps of a GPU keep all of them.
    """
    if torch.is_grad_enabled() or mask.device.type != "cpu":
        return mask.shape[1]
    return max(1, int(mask.any(dim=0).sum()))
