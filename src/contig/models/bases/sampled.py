"""Graph networks over sampled neighborhoods: two layers, each over the last events of a node."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import dropout

from contig.history import History, Neighbors
from contig.layers import PairDecoder
from contig.layers.unique import distinct
from contig.models.bases.node_inputs import NodeInputs, nodes_of
from contig.models.contract import DataShape, Model
from contig.models.state import NodeState


class Edges(NamedTuple):
    """The edges that a layer sums over: rows of sources, rows of targets, and the events between them."""

    source: Tensor  # [edges]
    target: Tensor  # [edges]
    event: Tensor  # [edges]


class SampledModel(Model):
    """Two layers over the last ``neighbors`` events before the query, of a node and of its neighbors."""

    def __init__(self, dim: int, neighbors: int, dropout: float, data: DataShape) -> None:
        super().__init__()
        self.neighbors, self.dropout = neighbors, dropout
        self.reach = neighbors
        self.inputs = NodeInputs(dim, data)
        self.decoder = PairDecoder(dim)

    @abstractmethod
    def layer(self, index: int, history: History, x: Tensor, own: Tensor, edges: Edges) -> Tensor:
        """Apply layer ``index``; the targets' own vectors are rows ``own`` of the sources' ``x``."""

    def prepare(self, history: History) -> None:
        self.inputs.learn_only(nodes_of(history))

    def score(self, src: Tensor, dst: Tensor) -> Tensor:
        logits: Tensor = self.decoder(src, dst)
        return logits

    def embed(
        self, state: NodeState, history: History, nodes: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        near = history.before(nodes, times, self.neighbors)
        query, _ = near.mask.nonzero(as_tuple=True)
        # the first layer is needed for the queries and their neighbors, all at the time of the query
        reached = torch.cat([nodes, near.node[near.mask]])
        far = history.before(reached, torch.cat([times, times[query]]), self.neighbors)
        inner = self._first(history, reached, far)
        own = torch.arange(len(nodes), device=nodes.device)
        theirs = torch.arange(len(nodes), len(reached), device=nodes.device)
        edges = Edges(theirs, query, near.event[near.mask])
        return self.layer(1, history, self._drop(inner), own, edges)

    def _first(self, history: History, reached: Tensor, far: Neighbors) -> Tensor:
        target, _ = far.mask.nonzero(as_tuple=True)
        own = self.inputs.rows(reached, far.mask[:, 0])
        theirs = far.node[far.mask]
        rows = torch.cat([own, self.inputs.rows(theirs, torch.ones_like(theirs, dtype=torch.bool))])
        # the same few nodes appear again and again: compute their inputs once
        found, place = distinct(rows, 1 + len(self.inputs.known))
        edges = Edges(place[len(own) :], target, far.event[far.mask])
        return self.layer(0, history, self._drop(self.inputs(found)), place[: len(own)], edges)

    def _drop(self, x: Tensor) -> Tensor:
        return dropout(x, self.dropout, self.training)
