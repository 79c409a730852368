"""GraphSAGE: sampled neighbourhoods and their mean (Hamilton et al., 2017).

``h_v = relu(W_own h_v + W_mean mean(h_u : u in N(v)) + b)`` in two layers (the last without relu), each
vector scaled to length 1 where ``normalize`` asks for it; a pair is scored by a two-layer perceptron.

Departures: ``N(v)`` are the other ends of the last ``neighbors`` events before the query's time instead of
uniformly drawn neighbours, so that an answer is the same every time it is asked for; who met twice counts
twice; where nodes have no features, each node of training has a learned vector and all others share one;
learned on events and negatives, not on random walks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from contig.history import History
from contig.models.bases.sampled import Edges, SampledModel
from contig.models.bases.static import convolutions
from contig.models.contract import DataShape
from contig.options import option


@dataclass(frozen=True)
class GraphSAGEOptions:
    """What can be chosen about GraphSAGE."""

    dim: int = option(64, "width of embeddings", low=1)
    neighbors: int = option(10, "past events of each node, in both layers; the paper's second layer", low=1)
    dropout: float = option(0.1, "dropout before each layer", low=0, below=1)
    normalize: bool = option(False, "whether each layer's vectors are scaled to length 1, as the paper's are")


class GraphSAGE(SampledModel):
    """See the module's text."""

    name = "graphsage"
    options = GraphSAGEOptions
    training_defaults: ClassVar = {"lr": 3e-3}

    def __init__(self, options: GraphSAGEOptions, data: DataShape) -> None:
        o = self.opt = options
        conv = convolutions(self.name).SAGEConv
        super().__init__(o.dim, o.neighbors, o.dropout, data)
        widths = (self.inputs.width, o.dim)
        self.layers = nn.ModuleList(conv((w, w), o.dim, normalize=o.normalize) for w in widths)

    def layer(self, index: int, history: History, x: Tensor, own: Tensor, edges: Edges) -> Tensor:
        both = torch.stack([edges.source, edges.target])
        found: Tensor = self.layers[index]((x, x[own]), both, size=(len(x), len(own)))
        return torch.relu(found) if index == 0 else found
