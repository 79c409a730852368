"""TPNet: pairs scored by the temporal walks between their nodes.

Lu et al., "Improving temporal link prediction via temporal walk matrix projection" (2024).

Every node keeps random projections of its temporal walks (``contig.models.bases.sketches``). What is known
about two nodes is ``r(a, b)``, a perceptron of ``log(1 + x)`` for all inner products ``x`` of their
projections. The token of each of the last ``k`` partners ``w`` of ``u`` before ``t`` is a perceptron of
``[Phi(t - t_event) | f | x_w | r(w, u) | r(w, v)]``. Tokens pass through a mixer (``contig.layers.mixer``),
and their mean is the embedding of ``u`` in the pair ``(u, v)``; that of ``v`` is computed likewise. The
decoder reads both, and ``r(u, v)``.

Departures from the paper: projections by random signs instead of normal numbers, so that new nodes need no
table; their width is an option instead of ``10 log(2 events)``; walks decay up to the time of the query,
not of the last batch, and per typical interval instead of per second; each inner product of two nodes
enters ``r`` once. As in the authors' code, events of one batch do not continue each other's walks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import torch
from torch import Tensor, nn

from contig.history import History, Neighbors
from contig.layers import MixerLayer
from contig.models.bases.joint import JointModel
from contig.models.bases.sketches import Sketches, WalkSketches, products
from contig.models.contract import DataShape, EventBatch
from contig.models.state import NodeState
from contig.options import option


@dataclass(frozen=True)
class TPNetOptions:
    """Options of TPNet."""

    dim: int = option(172, "width of tokens and embeddings; the paper's", low=1)
    time_dim: int = option(100, "width of the time encoding; the paper's", low=1)
    layers: int = option(2, "layers of the mixer; the paper's", low=1)
    neighbors: int = option(20, "past events of a node that are mixed (k); the paper's", low=1)
    dropout: float = option(0.1, "dropout in the mixer; the paper's", low=0, below=1)
    hops: int = option(3, "longest walks; the paper's", low=1)
    sketch_dim: int = option(120, "width of the random projections; the paper's on wikipedia", low=1)
    decay: float = option(
        3e-5,
        "decay of walks, per median interval of a node; 1e-7 per second on wikipedia, the default of its "
        "authors' code (their paper found 1e-4 to 1e-7 best, depending on the stream)",
        low=0,
        below=inf,
    )


class Ends(NamedTuple):
    """The sketches of sources ``[queries, ...]`` and of candidates ``[queries, candidates, ...]``."""

    src: Sketches
    dst: Sketches


class Partners(NamedTuple):
    """The last partners of nodes: their events, their sketches, and what else their tokens consist of."""

    near: Neighbors
    sketches: Sketches
    tokens: Tensor


class TPNet(JointModel):
    """TPNet: a mixer over the past events of both nodes, with sketches of the walks between them."""

    name = "tpnet"
    options = TPNetOptions

    def __init__(self, options: TPNetOptions, data: DataShape) -> None:
        o = self.opt = options
        super().__init__(o.dim, o.time_dim, data)
        self.tokens_per_pair = 2 * o.neighbors
        self.sketches = WalkSketches(o.sketch_dim, o.hops, o.decay, self.elapsed)
        relation = (2 * (1 + o.hops)) ** 2
        self.relation = nn.Sequential(
            nn.Linear(3 * (1 + o.hops) ** 2, 4 * relation), nn.ReLU(), nn.Linear(4 * relation, relation)
        )
        self.project = nn.Sequential(
            nn.Linear(self.node_width + data.edge_width + o.time_dim + 2 * relation, 2 * o.dim),
            nn.ReLU(),
            nn.Linear(2 * o.dim, o.dim),
        )
        self.mixer = nn.Sequential(
            *(MixerLayer(o.neighbors, o.dim, dropout=o.dropout) for _ in range(o.layers))
        )
        self.from_pair = nn.Linear(relation, o.dim, bias=False)

    def blank(self) -> Mapping[str, Tensor]:
        return self.sketches.blank()

    def observe(self, state: NodeState, history: History, batch: EventBatch) -> None:
        self.sketches.observe(state, history, batch)

    def link(
        self, state: NodeState, history: History, src: Tensor, dst: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        ends = self._ends(state, history, src, dst, times)
        ours, theirs = self._embed(state, history, ends, src, dst, times)
        source = products(ends.src, ends.src, "q,q->q").unsqueeze(1)
        candidate = products(ends.dst, ends.dst, "qc,qc->qc")
        related = self._relate(source, products(ends.src, ends.dst, "q,qc->qc"), candidate)
        return self.decoder.join(
            self.decoder.from_src(ours) + self.from_pair(related), self.decoder.from_dst(theirs)
        )

    def embed_pairs(
        self, state: NodeState, history: History, src: Tensor, dst: Tensor, times: Tensor
    ) -> tuple[Tensor, Tensor]:
        ends = self._ends(state, history, src, dst, times)
        return self._embed(state, history, ends, src, dst, times)

    def _ends(self, state: NodeState, history: History, src: Tensor, dst: Tensor, times: Tensor) -> Ends:
        when = times.repeat_interleave(dst.shape[1])
        candidates = self.sketches.read(state, history, dst.flatten(), when).unflatten(dst.shape)
        return Ends(self.sketches.read(state, history, src, times), candidates)

    def _embed(
        self, state: NodeState, history: History, ends: Ends, src: Tensor, dst: Tensor, times: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the embeddings ``[queries, candidates, d]`` of sources and candidates."""
        source = products(ends.src, ends.src, "q,q->q").unsqueeze(1)  # [queries, 1, products]
        candidate = products(ends.dst, ends.dst, "qc,qc->qc").unsqueeze(
            2
        )  # [queries, candidates, 1, products]

        ours = self._partners(state, history, src, times)
        known = products(ours.sketches, ours.sketches, "qk,qk->qk")
        to_src = self._relate(known, products(ours.sketches, ends.src, "qk,q->qk"), source).unsqueeze(1)
        to_dst = self._relate(known.unsqueeze(1), products(ours.sketches, ends.dst, "qk,qc->qck"), candidate)
        own, mask = ours.tokens.unsqueeze(1), ours.near.mask.unsqueeze(1)
        first = self._mix(own, to_src, to_dst, mask)

        theirs = self._partners(state, history, dst.flatten(), times.repeat_interleave(dst.shape[1]))
        sketches = theirs.sketches.unflatten(dst.shape)
        known = products(sketches, sketches, "qck,qck->qck")
        to_src = self._relate(known, products(sketches, ends.src, "qck,q->qck"), source.unsqueeze(1))
        to_dst = self._relate(known, products(sketches, ends.dst, "qck,qc->qck"), candidate)
        own, mask = (x.unflatten(0, dst.shape) for x in (theirs.tokens, theirs.near.mask))
        return first, self._mix(own, to_src, to_dst, mask)

    def _partners(self, state: NodeState, history: History, nodes: Tensor, times: Tensor) -> Partners:
        """Look up the last partners of nodes ``[n]``, each field ``[n, k, ...]``."""
        near = history.before(nodes, times, self.opt.neighbors)
        when = times.repeat_interleave(self.opt.neighbors)
        sketches = self.sketches.read(state, history, near.node.flatten(), when).unflatten(near.node.shape)
        parts = [
            self.phi(self.elapsed(times.unsqueeze(1), near.time)),
            self.feature_rows(history, near.event).gather(),
            self.features_of(near.node.flatten()).unflatten(0, near.node.shape),
        ]
        return Partners(near, sketches, torch.cat(parts, dim=2))

    def _relate(self, one: Tensor, both: Tensor, other: Tensor) -> Tensor:
        """Return ``r`` from the products of each of two nodes with itself, and of one with the other."""
        related: Tensor = self.relation(torch.cat([one.expand_as(both), both, other.expand_as(both)], dim=-1))
        return related

    def _mix(self, own: Tensor, to_src: Tensor, to_dst: Tensor, mask: Tensor) -> Tensor:
        """Mix tokens ``[queries, candidates, k, ...]``; parts of the source alone may have one candidate."""
        shape = to_dst.shape[:3]
        parts = [part.expand(*shape, -1) for part in (own, to_src, to_dst)]
        tokens = self.project(torch.cat(parts, dim=3)) * mask.unsqueeze(3)
        mixed = self.mixer(tokens.flatten(0, 1)).mean(dim=1)
        embedded: Tensor = mixed.unflatten(0, shape[:2])
        return embedded
