"""CTDNE: vectors from walks through time (Nguyen et al., "Continuous-time dynamic network embeddings", 2018).

Walks begin at drawn events and only ever go on to later ones; skip-gram with negative sampling makes a
vector per node of them. A pair is scored by logistic regression on the elementwise product, mean, absolute or
squared difference of its two vectors.

Walks and vectors come from the training events before the first epoch and are weights from then on;
the epochs fit the logistic regression. A node no training event touches, and a node before its
first event, has the zero vector: the method says nothing of them, and no inductive measures are given.

Departures: edges are undirected, so that walks on bipartite streams do not end after one step; the biases
are uniform or linear in the rank of time, not exponential in it; walks of any length above one count;
skip-gram's negatives are drawn evenly among the nodes walked over, so that vectors tell who is met often.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from contig.history import History
from contig.models.bases.static import StaticModel, nodes_of
from contig.models.bases.walks import Bias, learn_vectors, temporal_walks
from contig.models.contract import DataShape
from contig.models.state import NodeState
from contig.options import option

log = logging.getLogger("contig")

WALKS_AT_ONCE = 64  # in a step of the skip-gram

Operator = Literal["hadamard", "average", "l1", "l2"]


@dataclass(frozen=True)
class CTDNEOptions:
    """What can be chosen about CTDNE."""

    dim: int = option(128, "width of embeddings; the paper's", low=1)
    walks: int = option(10, "walks for each node; the paper's", low=1)
    length: int = option(80, "nodes on a walk at most; the paper's", low=2)
    window: int = option(4, "steps on a walk within which nodes are near; the paper's is 10", low=1)
    noise: int = option(5, "negatives for each pair of near nodes", low=1)
    noise_power: float = option(
        0.0, "power of the times a node is walked over by which negatives are drawn; 0.75 is usual", low=0
    )
    passes: int = option(3, "passes over the walks", low=1)
    walk_lr: float = option(5e-3, "Adam's step size for the vectors", above=0)
    start: Bias = option("linear", "which events walks begin with: all alike, or late ones rather")
    step: Bias = option("linear", "which later event is next: all alike, or soon ones rather")
    operator: Operator = option("hadamard", "what of two vectors the classifier sees")


class CTDNE(StaticModel):
    """See the module's text."""

    name = "ctdne"
    options = CTDNEOptions
    training_defaults: ClassVar = {"lr": 1e-2}
    inductive = False

    vectors: Tensor  # [nodes + 1, d], the last one zero
    known: Tensor  # [nodes] which have a vector

    def __init__(self, options: CTDNEOptions, data: DataShape) -> None:
        super().__init__()
        o = self.opt = options
        drawn = torch.randn(data.num_nodes + 1, o.dim) / math.sqrt(o.dim)
        drawn[-1] = 0
        self.register_buffer("vectors", drawn)
        self.register_buffer("known", torch.ones(data.num_nodes, dtype=torch.bool))
        self.classifier = nn.Linear(o.dim, 1)

    def prepare(self, history: History) -> None:
        o, nodes = self.opt, nodes_of(history)
        self.known.zero_()
        self.known[nodes] = True
        count = o.walks * int(self.known.sum())
        log.info("%s: learning vectors from %s walks", self.name, f"{count:,}")
        walks = temporal_walks(history, count, o.length, o.start, o.step)
        self.vectors[:-1] = learn_vectors(
            walks,
            self.vectors[:-1],
            window=o.window,
            negatives=o.noise,
            power=o.noise_power,
            passes=o.passes,
            lr=o.walk_lr,
            at_once=WALKS_AT_ONCE,
        )

    def embed(
        self, state: NodeState, history: History, nodes: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        row = torch.where(nodes < len(self.known), nodes, -1)
        own = (history.count_before(nodes, times) > 0) & (row >= 0)
        if len(self.known):
            own = own & self.known[row]
        return self.vectors[torch.where(own, row, -1)]

    def score(self, src: Tensor, dst: Tensor) -> Tensor:
        logit: Tensor = self.classifier(joined(src, dst, self.opt.operator))
        return logit.squeeze(-1)


def joined(src: Tensor, dst: Tensor, operator: Operator) -> Tensor:
    """The vector of a pair, from those of its ends."""
    if operator == "hadamard":
        return src * dst
    if operator == "average":
        return (src + dst) / 2
    apart = (src - dst).abs()
    return apart if operator == "l1" else apart.square()
