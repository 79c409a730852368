"""Graph autoencoders over all pairs that interacted so far; the graph is rebuilt every few events."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from torch import Tensor
from torch.nn.functional import dropout

from contig.history import History
from contig.models.bases.node_inputs import NodeInputs, convolutions, nodes_of
from contig.models.contract import DataShape, Model
from contig.models.state import NodeState
from contig.options import option


class Graph(NamedTuple):
    """An undirected graph without loops; place 0 represents every node without edges."""

    nodes: Tensor  # [n] node ids at places 1..n
    edges: Tensor  # [2, edges] places, each pair in both directions


class Pairs:
    """The distinct pairs of a history, in the order of their first events.

    Nodes get places from 1 in the order of their first events. So the graph before any position is a prefix
    of both lists, and a growing graph keeps its places.
    """

    def __init__(self, history: History) -> None:
        self.history, self.count = history, history.num_events
        event = history.event_indices()
        src, dst = history.events["src"][event], history.events["dst"][event]
        first = _first_places((torch.minimum(src, dst) << 32) | torch.maximum(src, dst))
        self.event = event[first]  # [pairs] ascending
        ends = torch.stack([src[first], dst[first]], dim=1).flatten()
        self.joined = _first_places(ends)  # [nodes] ascending positions in ends
        self.nodes = ends[self.joined]
        self.place = ends.new_zeros(history.num_nodes)
        self.place[self.nodes] = torch.arange(1, len(self.nodes) + 1, device=ends.device)
        self.ends = self.place[ends].view(-1, 2)

    def covers(self, history: History, position: int) -> bool:
        """Return whether these are all pairs of this history before a position."""
        return self.history is history and position <= self.count

    def graph(self, position: int) -> Graph:
        """Build the graph of the events before a position."""
        pairs = int(torch.searchsorted(self.event, position))
        nodes = int(torch.searchsorted(self.joined, 2 * pairs))
        ends = self.ends[:pairs]
        ends = ends[ends[:, 0] != ends[:, 1]].T
        return Graph(self.nodes[:nodes], torch.cat([ends, ends.flip(0)], dim=1))

    def places(self, nodes: Tensor, graph: Graph) -> Tensor:
        """Return the places of nodes in a graph; 0 for nodes that are not in it."""
        inside = nodes < len(self.place)
        if not len(self.place):
            return torch.zeros_like(nodes)
        place = torch.where(inside, self.place[torch.where(inside, nodes, 0)], 0)
        return torch.where(place <= len(graph.nodes), place, 0)


def _first_places(values: Tensor) -> Tensor:
    """Return the position of the first occurrence of each distinct value, ascending."""
    distinct, code = torch.unique(values, return_inverse=True)
    places = torch.arange(len(values), device=values.device)
    first = torch.full_like(distinct, len(values)).scatter_reduce(0, code, places, "amin")
    return first.sort().values


@dataclass(frozen=True)
class AutoencoderOptions:
    """Options of an autoencoder."""

    dim: int = option(64, "width of embeddings", low=1)
    hidden: int = option(128, "width of the first convolution and of learned inputs", low=1)
    dropout: float = option(0.1, "dropout before each convolution", low=0, below=1)
    refresh: int = option(200, "events after which the graph is rebuilt", low=1)


class Autoencoder(Model):
    """A model that encodes the graph of all pairs before ``as_of`` and scores by inner products.

    The graph holds the events before the last multiple of ``refresh`` before ``as_of``, so a queried pair is
    an edge only if it interacted earlier. As long as the weights stay the same, a graph is encoded once.
    """

    inductive = False

    def __init__(self, options: AutoencoderOptions, data: DataShape) -> None:
        conv = convolutions(self.name).GCNConv
        super().__init__()
        self.opt = options
        self.inputs = NodeInputs(options.hidden, data)
        self.first = conv(self.inputs.width, options.hidden)
        self._pairs: Pairs | None = None
        self._kept: tuple[Pairs, object, Tensor] | None = None

    @abstractmethod
    def encode(self, x: Tensor, edges: Tensor) -> Tensor:
        """Compute embeddings ``[nodes, d]`` from inputs ``[nodes, width]`` and edges ``[2, edges]``."""

    def inner(self, x: Tensor, edges: Tensor) -> Tensor:
        """Apply the first convolution, ``[nodes, hidden]``."""
        return self._drop(torch.relu(self.first(self._drop(x), edges)))

    def train(self, mode: bool = True) -> Self:
        self._kept = None  # training changes the weights
        return super().train(mode)

    def prepare(self, history: History) -> None:
        self.inputs.learn_only(nodes_of(history))

    def embed(
        self, state: NodeState, history: History, nodes: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        pairs, position = self._past(history, as_of)
        graph = pairs.graph(position)
        return self._encoded(pairs, position, graph)[pairs.places(nodes, graph)]

    def _past(self, history: History, as_of: Tensor) -> tuple[Pairs, int]:
        """Return the pairs of a history, and the position before which they count at ``as_of``."""
        position = int(history.events.count_before(as_of.reshape(1))) // self.opt.refresh * self.opt.refresh
        pairs = self._pairs  # another thread may replace it
        if pairs is None or not pairs.covers(history, position):
            self._pairs = pairs = Pairs(history)
        return pairs, position

    def _inputs(self, graph: Graph) -> Tensor:
        """Return the input vectors of places 0..n."""
        rows = self.inputs.rows(graph.nodes, torch.ones_like(graph.nodes, dtype=torch.bool))
        vectors: Tensor = self.inputs(torch.cat([rows.new_zeros(1), rows]))
        return vectors

    def _encoded(self, pairs: Pairs, position: int, graph: Graph) -> Tensor:
        if self.training or torch.is_grad_enabled():
            return self.encode(self._inputs(graph), graph.edges)
        # torch counts in-place changes of the weights, as loading makes them; training is followed by a
        # call of ``train`` or ``eval``
        key = (position, *((p.data_ptr(), p._version) for p in self.parameters()))
        kept = self._kept  # another thread may replace it
        if kept is None or kept[0] is not pairs or kept[1] != key:
            self._kept = kept = (pairs, key, self.encode(self._inputs(graph), graph.edges))
        return kept[2]

    def _drop(self, x: Tensor) -> Tensor:
        return dropout(x, self.opt.dropout, self.training)
