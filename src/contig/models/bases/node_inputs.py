"""The inputs of static graph networks, and the layers they use.

Static models see a graph without times. They are as causal as all models: an answer for ``t`` is
computed on the graph of the events strictly before ``t``. They only ignore when those events
happened.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from contig.errors import ConfigError
from contig.history import History
from contig.models.contract import DataShape


class NodeInputs(nn.Module):
    """The input vectors of a graph network: the features of a node, or a learned vector.

    Vectors are learned for the nodes of training events. All other nodes, and all nodes before their first
    event, share one vector, which is learned from the first events of the training nodes.
    """

    features: Tensor | None
    known: Tensor  # [nodes] which have features, or a learned vector

    def __init__(self, dim: int, data: DataShape) -> None:
        super().__init__()
        features = data.node_features
        learned = data.num_nodes if features is None else 0
        self.width = dim if features is None else features.shape[1]
        self.vectors = nn.Parameter(torch.randn(1 + learned, self.width) / math.sqrt(self.width))
        self.register_buffer("features", features, persistent=False)
        known = torch.ones(learned if features is None else len(features), dtype=torch.bool)
        self.register_buffer("known", known)

    def learn_only(self, nodes: Tensor) -> None:
        """Give only these nodes a vector of their own; features are not affected."""
        if self.features is None:
            self.known.zero_()
            self.known[nodes] = True

    def rows(self, nodes: Tensor, active: Tensor) -> Tensor:
        """Return the row of each node in the table; ``active`` marks nodes that have an event."""
        inside = nodes < len(self.known)
        if not len(self.known):
            return torch.zeros_like(nodes)
        own = inside & self.known[torch.where(inside, nodes, 0)]
        return torch.where(own if self.features is not None else own & active, nodes + 1, 0)

    def forward(self, rows: Tensor) -> Tensor:
        """Look up the vectors ``[..., width]`` of rows of the table."""
        table = self.vectors if self.features is None else torch.cat([self.vectors, self.features])
        return embedding(rows, table)


def nodes_of(history: History) -> Tensor:
    """Return the sources and destinations of all events in a history."""
    events = history.event_indices()
    return torch.cat([history.events[end][events] for end in ("src", "dst")])


def convolutions(model: str) -> Any:
    """Import the layers of PyTorch Geometric, which the named model needs."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # from classes that it scripts on import
            from torch_geometric import nn as layers
    except ImportError as error:
        raise ConfigError(
            f"model={model!r} needs PyTorch Geometric; install it with: pip install 'contig[baselines]'."
        ) from error
    return layers
