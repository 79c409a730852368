"""What static models have in common: they see a graph without times, and keep no state of their own.

Static does not mean timeless. An answer for ``t`` is computed on the graph of the events strictly before
``t``, like that of any other model; only when those events happened makes no difference.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from contig.errors import ConfigError
from contig.history import History
from contig.models.contract import DataShape, EventBatch, Model
from contig.models.state import NodeState


class StaticModel(Model):
    """A model whose weights and whose history are all it knows."""

    def blank(self) -> Mapping[str, Tensor]:
        return {}

    def observe(self, state: NodeState, history: History, batch: EventBatch) -> None:
        """The history knows every event already."""


class NodeInputs(nn.Module):
    """The vectors that a graph network starts from: a node's features, or a learned vector of its own.

    A vector can be learned only for the nodes of training events; every other node, and every node to
    which nothing has happened yet, has the one vector they share. It is learned too, from the first
    events of the nodes in training.
    """

    features: Tensor | None
    known: Tensor  # [nodes] whose features are given, or whose vectors are learned

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
        """Let these nodes alone have vectors of their own; features stay what they are."""
        if self.features is None:
            self.known.zero_()
            self.known[nodes] = True

    def rows(self, nodes: Tensor, met: Tensor) -> Tensor:
        """The row of each node in the table; ``met`` says to which of them something has happened."""
        inside = nodes < len(self.known)
        if not len(self.known):
            return torch.zeros_like(nodes)
        own = inside & self.known[torch.where(inside, nodes, 0)]
        return torch.where(own if self.features is not None else own & met, nodes + 1, 0)

    def forward(self, rows: Tensor) -> Tensor:
        """Vectors ``[..., width]`` of rows of the table."""
        table = self.vectors if self.features is None else torch.cat([self.vectors, self.features])
        return embedding(rows, table)


def nodes_of(history: History) -> Tensor:
    """The two ends of every event in a history."""
    events = history.event_indices()
    return torch.cat([history.events[end][events] for end in ("src", "dst")])


def convolutions(model: str) -> Any:
    """PyTorch Geometric's layers, for the model of that name."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # it scripts some classes as it is imported
            from torch_geometric import nn as layers
    except ImportError as error:
        raise ConfigError(
            f"model={model!r} needs PyTorch Geometric; install it with: pip install 'contig[baselines]'."
        ) from error
    return layers
