"""What models that remember have in common: a vector per node, moved by its latest event.

The latest event of a node is not taken into its vector at once but kept as a number and encoded again
at the node's next appearance: that is how gradients reach the weights that take it in, although the
stored vectors carry none.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from contig.history import History
from contig.kernels.gather import LazyRows, gather_rows
from contig.layers import LogTimeEncoding, elapsed
from contig.layers.unique import mentioned, packed
from contig.models.bases.events import AttentionReadout, EventModel
from contig.models.contract import DataShape, EventBatch
from contig.models.state import NodeState


class Latest(NamedTuple):
    """A node's latest observed event, each ``[nodes]``."""

    exists: Tensor
    partner: Tensor  # the node itself where there is none
    event: Tensor  # 0 where there is none
    time: Tensor  # 0 where there is none


class MemoryModel(EventModel):
    """Keeps ``h`` (a vector) and ``last`` (the number of the latest event) for every node.

    A subclass says with ``updated`` where a node's vector stands at a time; after a batch the
    vectors of its nodes are set to that and their latest events to those of the batch.
    """

    def blank(self) -> Mapping[str, Tensor]:
        return {"h": torch.zeros(self.dim), "last": torch.tensor(-1)}

    @abstractmethod
    def updated(self, state: NodeState, history: History, nodes: Tensor, as_of: Tensor) -> Tensor:
        """Where the vectors of nodes stand at ``as_of``, their latest events taken in ``[nodes, d]``."""

    @torch.no_grad()
    def observe(self, state: NodeState, history: History, batch: EventBatch) -> None:
        if not len(batch.event):
            return
        ends = torch.cat([batch.src, batch.dst])
        nodes = mentioned(ends, state.num_nodes)
        state["h"][nodes] = self.updated(state, history, nodes, batch.t[0])  # named twice, same row twice
        if "before_last" in state.rows:
            state["before_last"][nodes] = state["last"][nodes]
        state["last"].scatter_reduce_(0, ends, batch.event.repeat(2), "amax")

    def latest(self, state: NodeState, history: History, nodes: Tensor) -> Latest:
        """Each node's latest observed event."""
        last = state["last"][nodes]
        exists = last >= 0
        event = last.clamp(min=0)
        columns = history.events
        if not columns.count:
            return Latest(exists, nodes, event, columns["t"].new_zeros(len(nodes)))
        partner = torch.where(exists, columns["src"][event] + columns["dst"][event] - nodes, nodes)
        return Latest(exists, partner, event, torch.where(exists, columns["t"][event], 0))


class RecurrentMemory(MemoryModel):
    """A memory moved by a recurrent cell, as in TGN.

    Besides the latest event it keeps the last one that the vector has taken in (``before_last``, the
    latest of the batches before): the interval between the two is part of the message.
    """

    def blank(self) -> Mapping[str, Tensor]:
        return {**super().blank(), "before_last": torch.tensor(-1)}

    def interval(self, state: NodeState, history: History, nodes: Tensor, latest: Latest) -> Tensor:
        """Time from the last event in each node's vector to its latest, as float32; 0 where none is in it."""
        before = state["before_last"][nodes]
        if not history.num_events:
            return torch.zeros(len(nodes), device=nodes.device)
        since = history.events["t"][before.clamp(min=0)]
        return torch.where(before >= 0, elapsed(latest.time, since), 0.0)

    def message(
        self, state: NodeState, history: History, nodes: Tensor, latest: Latest, *others: Tensor
    ) -> list[Tensor]:
        """``[others | f | Phi(interval) | x]`` in parts: what the latest event tells a node."""
        interval = self.interval(state, history, nodes, latest)
        features = self.event_features(history, latest.event)
        return [*others, features, self.phi(interval), self.features_of(nodes)]


class PacedMemory(RecurrentMemory):
    """A recurrent memory that counts intervals in events of the whole stream, and reads their logarithm.

    For vectors that rest between events and are nearly all that is known of a node, as in JODIE and
    DyRep. Measured in seconds, when a stream slows down those who are still active look idle beside
    those who fell silent while it was busy, and what was learned turns around; by the stream's own
    pace, the time in which a point process has a constant total rate, it holds on.
    """

    def __init__(self, dim: int, time_dim: int, data: DataShape) -> None:
        super().__init__(dim, time_dim, data)
        self.phi = LogTimeEncoding(time_dim)

    def interval(self, state: NodeState, history: History, nodes: Tensor, latest: Latest) -> Tensor:
        """Events from the last one in each node's vector to its latest, as float32; 0 where none is in it."""
        before = state["before_last"][nodes]
        return torch.where(before >= 0, elapsed(latest.event, before), 0.0)


class AttentiveMemory(MemoryModel):
    """A memory read by attention over the last ``neighbors`` events, as in TGN and ConTIG."""

    neighbors: int
    readout: AttentionReadout

    def query_time(self, times: Tensor) -> Tensor:
        """The time encoding of the query itself, ``[1 or queries, time_dim]``."""
        return self.time_now()

    def nodes_read(self, history: History, nodes: Tensor, times: Tensor) -> Tensor:
        """The nodes ``[queries, 1 + k]`` whose vectors ``embed`` computes (``contig.streaming.packing``)."""
        near = history.before(nodes, times, self.neighbors)
        return torch.cat([nodes.unsqueeze(1), near.node], dim=1)

    def embed(
        self, state: NodeState, history: History, nodes: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        near = history.before(nodes, times, self.neighbors)
        read = torch.cat([nodes, near.node.flatten()])
        unique, place = packed(read, state.num_nodes, fixed_shapes=self.fixed_shapes)
        updated = self.updated(state, history, unique, as_of)  # [unique, d]
        own = gather_rows(updated, place[: len(nodes)])
        theirs = LazyRows(updated, place[len(nodes) :].view(near.node.shape))
        ages = self.phi(elapsed(times.unsqueeze(1), near.time))
        features = self.feature_rows(history, near.event)
        merged: Tensor = self.readout(own, self.query_time(times), theirs, features, ages, near.mask)
        return merged
