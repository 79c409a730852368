"""GAT: graph attention networks.

Velickovic et al., "Graph attention networks" (2018).

``h_v = sum_u a_vu W h_u`` over the neighbors and ``v`` itself, where ``a_vu`` is the softmax over
``u`` of ``leaky_relu(a_own . W h_v + a_other . W h_u + a_event . W_e f_vu)``. The heads of the
first layer are concatenated and followed by an ELU, those of the second are averaged. Each layer
adds ``W_r h_v`` (the paper's skip connections, without which a node is lost among its neighbors). A
pair is scored by a two-layer perceptron.

Departures from the paper: the neighbors are the other ends of the last ``neighbors`` events before
the query's time, with repetition; the features ``f`` of events, which the paper's graphs do not
have, enter the attention (zeros for the node itself); if nodes have no features, each training node
has a learned vector and all others share one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import elu

from contig.history import History
from contig.models.bases.node_inputs import convolutions
from contig.models.bases.sampled import Edges, SampledModel
from contig.models.contract import DataShape
from contig.options import option


@dataclass(frozen=True)
class GATOptions:
    """Options of GAT."""

    dim: int = option(64, "width of embeddings", low=1)
    heads: int = option(2, "attention heads", low=1)
    neighbors: int = option(10, "past events per node, in both layers", low=1)
    dropout: float = option(0.1, "dropout before each layer and in the attention", low=0, below=1)


class GAT(SampledModel):
    """GAT: two layers of graph attention over the last events of a node."""

    name = "gat"
    options = GATOptions
    training_defaults: ClassVar = {"lr": 1e-2}

    def __init__(self, options: GATOptions, data: DataShape) -> None:
        o = self.opt = options
        conv = convolutions(self.name).GATConv
        super().__init__(o.dim, o.neighbors, o.dropout, data)
        self.edge_width = data.edge_width
        each = -(-o.dim // o.heads)  # width of a head; together they are at least as wide as an embedding
        shared = {
            "add_self_loops": False,
            "residual": True,
            "dropout": o.dropout,
            "edge_dim": data.edge_width or None,
        }
        self.layers = nn.ModuleList(
            [
                conv(self.inputs.width, each, o.heads, **shared),
                conv(each * o.heads, o.dim, o.heads, concat=False, **shared),
            ]
        )

    def layer(self, index: int, history: History, x: Tensor, own: Tensor, edges: Edges) -> Tensor:
        selves = torch.arange(len(own), device=own.device)
        both = torch.stack([torch.cat([edges.source, own]), torch.cat([edges.target, selves])])
        features = self._features(history, edges.event, len(own))
        found: Tensor = self.layers[index]((x, x[own]), both, features, size=(len(x), len(own)))
        return elu(found) if index == 0 else found

    def _features(self, history: History, event: Tensor, selves: int) -> Tensor | None:
        """Return the features of the events, then zeros for the nodes themselves."""
        if not self.edge_width:
            return None
        nothing = torch.zeros((selves, self.edge_width), device=event.device)
        return torch.cat([history.events["features"][event], nothing]) if history.num_events else nothing
