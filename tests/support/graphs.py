"""Graphs as dense matrices and plain loops, to compare models with."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from contig.data.events import EventStream


def past_events(stream: EventStream, v: int, t: float, k: int) -> list[tuple[int, int]]:
    """The other ends and positions of the last ``k`` events of a node before a time."""
    ends = zip(stream.src.tolist(), stream.dst.tolist(), strict=True)
    met = [(d if v == s else s, i) for i, (s, d) in enumerate(ends) if v in (s, d) and stream.t[i] < t]
    return met[::-1][:k]


def own_input(model: Any, stream: EventStream, v: int, t: float) -> Tensor:
    """The input vector of a training node: its own from the first event on."""
    row = v + 1 if past_events(stream, v, t, 1) else 0
    vector: Tensor = model.inputs.vectors[row]
    return vector


def dense_convolution(layer: Any, x: Tensor, adjacency: Tensor) -> Tensor:
    """``D^-1/2 (A + I) D^-1/2 X W + b``."""
    filled = adjacency + torch.eye(len(adjacency))
    scale = torch.diag(filled.sum(dim=1) ** -0.5)
    convolved: Tensor = scale @ filled @ scale @ x @ layer.lin.weight.T + layer.bias
    return convolved


def dense_graph(model: Any, stream: EventStream, events: int) -> tuple[Tensor, Tensor]:
    """Inputs and adjacency of all nodes after the first events, isolated ones included."""
    adjacency = np.zeros((stream.num_nodes, stream.num_nodes))
    met = set()
    for s, d in zip(stream.src[:events].tolist(), stream.dst[:events].tolist(), strict=True):
        met |= {s, d}
        if s != d:
            adjacency[s, d] = adjacency[d, s] = 1
    rows = [v + 1 if v in met else 0 for v in range(stream.num_nodes)]
    return model.inputs.vectors[rows], torch.from_numpy(adjacency).float()
