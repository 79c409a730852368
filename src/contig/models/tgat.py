"""TGAT: temporal graph attention.

Xu et al., "Inductive representation learning on temporal graphs" (2020).

There is no memory. The embedding of ``v`` at ``t`` in layer ``l`` is attention of
``[h^(l-1)_v(t) | Phi(0)]`` over the ``k`` events before ``t`` with keys
``[h^(l-1)_nbr(t_event) | f | Phi(t - t_event)]``, then a two-layer perceptron. Layer 0 is the
features of the node, or zeros if there are none.

Departures from the paper: the last ``k`` events instead of uniformly sampled ones, so that answers are
deterministic; ``Phi`` encodes the logarithm of an interval, in units of the training events, its
frequencies are trained by their logarithms (``contig.layers.time``; ``time_encoding=raw`` and
``frequencies=direct`` switch back), and it has ``time_dim / 2`` frequencies without phases. If nodes have
no features, ``identity`` gives each a fixed random vector instead: without it, and without edge features,
the model knows a node only by the times of its events.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from contig.history import History, Neighbors
from contig.kernels.gather import LazyRows
from contig.layers import NodeSignatures
from contig.layers.time import Frequencies, TimeInput
from contig.layers.unique import distinct
from contig.models.bases.events import AttentionReadout, EventModel, frequencies_option, time_encoding_option
from contig.models.contract import DataShape
from contig.models.state import NodeState
from contig.options import option


@dataclass(frozen=True)
class TGATOptions:
    """Options of TGAT."""

    dim: int = option(172, "width of embeddings; the paper's", low=1)
    time_dim: int = option(172, "width of the time encoding; the paper's", low=1)
    layers: int = option(
        2, "layers of attention; the paper's; each costs k times as much as the one before", low=1
    )
    neighbors: int = option(20, "past events in the attention (k); the paper's", low=1)
    heads: int = option(2, "attention heads; the paper's", low=1)
    time_encoding: TimeInput = time_encoding_option()
    frequencies: Frequencies = frequencies_option()
    dropout: float = option(0.1, "dropout in attention and readout; the paper's", low=0, below=1)
    identity: int = option(
        0, "width of random features for nodes without features; helps if there are few nodes", low=0
    )


class TGAT(EventModel):
    """TGAT: layers of attention over a node's past events, without a memory."""

    name = "tgat"
    options = TGATOptions

    def __init__(self, options: TGATOptions, data: DataShape) -> None:
        o = self.opt = options
        super().__init__(o.dim, o.time_dim, data, time_encoding=o.time_encoding, frequencies=o.frequencies)
        self.reach = o.neighbors ** (o.layers - 1)
        self.codes = NodeSignatures(o.identity) if o.identity and not self.node_width else None
        width = self.node_width if self.codes is None else o.identity
        self.project = nn.Linear(width, o.dim, bias=False) if width else None
        self.rounds = nn.ModuleList(
            AttentionReadout(o.dim, o.time_dim, data.edge_width, heads=o.heads, dropout=o.dropout)
            for _ in range(o.layers)
        )

    def embed(
        self, state: NodeState, history: History, nodes: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        return self._layer(self.opt.layers, state, history, nodes, times)

    def _layer(self, count: int, state: NodeState, history: History, nodes: Tensor, times: Tensor) -> Tensor:
        """Return embeddings after ``count`` layers, at least one."""
        near = history.before(nodes, times, self.opt.neighbors)
        if count == 1:
            own = self._inputs(state, nodes.unsqueeze(1)).gather().squeeze(1)
            theirs = self._inputs(state, near.node)
        else:
            own = self._layer(count - 1, state, history, nodes, times)
            theirs = self._neighbors(count - 1, state, history, near)
        ages = self.phi(self.elapsed(times.unsqueeze(1), near.time))
        features = self.feature_rows(history, near.event)
        readout = self.rounds[count - 1]
        embedded: Tensor = readout(own, self.time_now(), theirs, features, ages, near.mask)
        return embedded

    def _neighbors(self, count: int, state: NodeState, history: History, near: Neighbors) -> LazyRows:
        """Return neighbors' embeddings after ``count`` layers, each at the time of its event.

        On a CPU each end of an event is embedded once, however many queries have it as a neighbor.
        """
        if near.node.is_cuda or not history.num_events:
            rows = self._layer(count, state, history, near.node.flatten(), near.time.flatten())
            return LazyRows.of(rows.unflatten(0, near.node.shape))
        src, dst, t = (history.events[name] for name in ("src", "dst", "t"))
        event, was_source = near.event, near.node == src[near.event]
        ends, place = torch.unique(2 * event + ~was_source, return_inverse=True)
        event = ends // 2
        node = torch.where(ends % 2 == 0, src[event], dst[event])
        return LazyRows(self._layer(count, state, history, node, t[event]), place)

    def _inputs(self, state: NodeState, nodes: Tensor) -> LazyRows:
        """Return the vectors of nodes ``[n, k]`` before the first layer."""
        if self.project is None:
            return LazyRows(torch.zeros((1, self.dim), device=nodes.device), torch.zeros_like(nodes))
        unique, place = distinct(nodes.flatten(), state.num_nodes)
        return LazyRows(self.project((self.codes or self.features_of)(unique)), place.view_as(nodes))
