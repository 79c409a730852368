"""CTDNE: vectors from temporal walks.

Nguyen et al., "Continuous-time dynamic network embeddings" (2018).

Walks start at sampled events and always continue with later ones; skip-gram with negative sampling
turns them into a vector per node. A pair is scored by logistic regression on the elementwise
product, mean, absolute or squared difference of its two vectors.

Vectors are learned from walks over the training events before the first epoch and stay fixed; the
epochs fit the logistic regression. Nodes without a training event, and nodes before their first
event, have the zero vector: the method knows nothing about them, so inductive metrics are not
reported.

Departures from the paper: edges are undirected, otherwise walks on bipartite streams would end
after one step; the biases are uniform or linear in the rank of time, not exponential in time; walks
of any length above one count; negatives of the skip-gram are uniform over the visited nodes, so
that vectors encode how frequent a node is.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from contig.history import History
from contig.models.bases.node_inputs import nodes_of
from contig.models.bases.walks import Bias, learn_vectors, temporal_walks
from contig.models.contract import DataShape, Model
from contig.models.state import NodeState
from contig.options import option

log = logging.getLogger("contig")

WALKS_AT_ONCE = 64  # per optimizer step of the skip-gram

Operator = Literal["hadamard", "average", "l1", "l2"]


@dataclass(frozen=True)
class CTDNEOptions:
    """Options of CTDNE."""

    dim: int = option(128, "width of embeddings; the paper's", low=1)
    walks: int = option(10, "walks per node; the paper's", low=1)
    length: int = option(80, "largest number of nodes on a walk; the paper's", low=2)
    window: int = option(4, "steps within which nodes of a walk are neighbors; the paper's is 10", low=1)
    noise: int = option(5, "negatives per pair of neighbors", low=1)
    noise_power: float = option(
        0.0, "negatives are drawn in proportion to this power of a node's visits; 0.75 is usual", low=0
    )
    passes: int = option(3, "passes over the walks", low=1)
    walk_lr: float = option(5e-3, "learning rate of the vectors", above=0)
    start: Bias = option("linear", "first events of walks: all equally likely, or late ones more")
    step: Bias = option(
        "linear", "next events of walks: all later ones equally likely, or the next ones more"
    )
    operator: Operator = option("hadamard", "how two vectors are combined for the classifier")


class CTDNE(Model):
    """CTDNE: vectors learned from temporal random walks, scored by logistic regression."""

    name = "ctdne"
    options = CTDNEOptions
    training_defaults: ClassVar = {"lr": 1e-2}
    inductive = False
    blank_last = frozenset({"vectors"})

    vectors: Tensor  # [nodes + 1, d], the last row is zero
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
    """Combine the vectors of a pair."""
    if operator == "hadamard":
        return src * dst
    if operator == "average":
        return (src + dst) / 2
    apart = (src - dst).abs()
    return apart if operator == "l1" else apart.square()
