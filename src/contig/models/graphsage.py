"""GraphSAGE: means over sampled neighborhoods.

Hamilton et al., "Inductive representation learning on large graphs" (2017).

``h_v = relu(W_own h_v + W_mean mean(h_u : u in N(v)) + b)`` in two layers (the last without relu),
each vector scaled to length 1 if ``normalize`` is set. A pair is scored by a two-layer perceptron.

Departures from the paper: ``N(v)`` holds the other ends of the last ``neighbors`` events before the
query's time, with repetition, instead of uniformly sampled neighbors, so that answers are
deterministic; if nodes have no features, each training node has a learned vector and all others
share one; trained on events and negatives, not on random walks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from contig.history import History
from contig.models.bases.node_inputs import convolutions
from contig.models.bases.sampled import Edges, SampledModel
from contig.models.contract import DataShape
from contig.options import option


@dataclass(frozen=True)
class GraphSAGEOptions:
    """Options of GraphSAGE."""

    dim: int = option(64, "width of embeddings", low=1)
    neighbors: int = option(
        10, "past events per node, in both layers; the paper's for the second layer", low=1
    )
    dropout: float = option(0.1, "dropout before each layer", low=0, below=1)
    normalize: bool = option(False, "scale each layer's vectors to length 1, as the paper does")


class GraphSAGE(SampledModel):
    """GraphSAGE: two layers of means over the last events of a node."""

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
