"""Temporal walks between nodes, counted by random projections.

A walk of ``n`` events from a node goes back in time, event by event. At time ``t`` it weighs the product of
``exp(-decay (t - t_event))`` over its events. Row ``v`` of the matrix ``A_n(t)`` holds the weights of all
walks of ``n`` events from ``v``, by the node they reach; ``A_0`` is the identity. An event ``{u, v}`` at
``t`` adds row ``v`` of ``A_(n-1)(t)`` to row ``u`` of ``A_n(t)``, and the other way round.

The matrices would take a number for each pair of nodes. A sketch is a row's product with a random matrix
``P`` whose entries have variance ``1 / width``: products of sketches are those of rows on average, and
sketches follow the same updates as rows (TPNet, Lu et al., 2024).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from contig.history import History
from contig.layers import Elapsed, NodeSignatures
from contig.layers.unique import mentioned
from contig.models.contract import EventBatch
from contig.models.state import NodeState

LARGEST = 1e30  # of a product; counts of long walks grow with the power of their length


class Sketches(NamedTuple):
    """Sketches of nodes as they are stored, and their decay since then."""

    rows: Tensor  # [..., 1 + hops, width]
    decay: Tensor  # [..., 1 + hops]

    def unflatten(self, shape: tuple[int, ...]) -> Sketches:
        """Arrange a list of sketches in this shape."""
        return Sketches(*(part.unflatten(0, shape) for part in self))


class WalkSketches(nn.Module):
    """Keeps sketches of the walks of up to ``hops`` events from each node, in the state.

    ``decay`` is that per unit of ``elapsed``. The sketches of a node are those at the time of the event
    ``updated``. Events of one batch do not continue each other's walks.
    """

    def __init__(self, width: int, hops: int, decay: float, elapsed: Elapsed) -> None:
        super().__init__()
        self.width, self.hops, self.decay, self.elapsed = width, hops, decay, elapsed
        self.projection: nn.Module = NodeSignatures(width)  # rows of P, times sqrt(width)

    def blank(self) -> Mapping[str, Tensor]:
        """Return the sketches of a node without events, for the state."""
        return {"walks": torch.zeros(self.hops, self.width), "updated": torch.tensor(-1)}

    def read(self, state: NodeState, history: History, nodes: Tensor, times: Tensor) -> Sketches:
        """Return the sketches of nodes ``[n]`` at times ``[n]``."""
        starts = self.projection(nodes) / math.sqrt(self.width)
        walks = state["walks"].index_select(0, nodes)
        fading = self._fading(self._age(state, history, nodes, times))
        rows = torch.cat([starts.unsqueeze(1), walks], dim=1)
        return Sketches(rows, torch.cat([torch.ones_like(fading[:, :1]), fading], dim=1))

    @torch.no_grad()
    def observe(self, state: NodeState, history: History, batch: EventBatch) -> None:
        """Add the walks that end with events of a batch."""
        if not len(batch.event):
            return
        ends, others = torch.cat([batch.src, batch.dst]), torch.cat([batch.dst, batch.src])
        now = batch.t[-1:]
        shorter = self.read(state, history, others, now.expand(len(others)))
        weight = torch.exp(-self.decay * self.elapsed(now, batch.t)).repeat(2) * _counted(batch)
        added = (shorter.rows * shorter.decay.unsqueeze(2))[:, :-1] * weight.view(-1, 1, 1)
        nodes = mentioned(ends, state.num_nodes)
        fading = self._fading(self._age(state, history, nodes, now.expand(len(nodes))))
        state["walks"][nodes] = state["walks"][nodes] * fading.unsqueeze(2)  # repeated nodes get equal rows
        # not index_add_, whose sums have no fixed order on a GPU
        state["walks"].index_put_((ends,), added, accumulate=True)
        state["updated"][nodes] = batch.event[-1:].expand(len(nodes))

    def _age(self, state: NodeState, history: History, nodes: Tensor, times: Tensor) -> Tensor:
        """Return the time since the sketches of nodes were updated, 0 if they never were."""
        updated = state["updated"][nodes]
        if not history.num_events:
            return torch.zeros(len(nodes), device=nodes.device)
        since = history.events["t"][updated.clamp(min=0)]
        return torch.where(updated >= 0, self.elapsed(times, since), 0.0)

    def _fading(self, age: Tensor) -> Tensor:
        """Return the decay of walks of 1, 2, ... events over a time ``[n]``: ``[n, hops]``."""
        events = torch.arange(1, self.hops + 1, device=age.device)
        return torch.exp(-self.decay * age.unsqueeze(1) * events)


def _counted(batch: EventBatch) -> Tensor:
    """Return which ends of events count, sources first: not those of padding, and one of a self-loop."""
    again = torch.cat([torch.zeros_like(batch.event[:1]), batch.event.diff() == 0]).bool()
    return ~torch.cat([again, again | (batch.src == batch.dst)])


def products(a: Sketches, b: Sketches, dims: str) -> Tensor:
    """Return ``log(1 + x)`` of all products ``x`` of the sketches of two nodes, where they are positive.

    ``dims`` names the leading dimensions of both and of the result, as ``einsum`` does, for instance
    ``"qk,q->qk"``; the result has ``(1 + hops)^2`` more.
    """
    first, rest = dims.split(",")
    second, result = rest.split("->")
    raw = torch.einsum(f"{first}ix,{second}jx->{result}ij", a.rows, b.rows)
    decay = torch.einsum(f"{first}i,{second}j->{result}ij", a.decay, b.decay)
    return torch.log1p((raw * decay).clamp(min=0, max=LARGEST)).flatten(-2)
