"""GAE: a graph autoencoder.

Kipf and Welling, "Variational graph auto-encoders" (2016).

Two graph convolutions over the whole graph, ``Z = A' relu(A' X W_0) W_1`` with
``A' = D^-1/2 (A + I) D^-1/2``, and the inner product ``z_u . z_v`` as the logit of a link.

Departures from the paper: the graph holds the pairs that interacted before the batch, not those of
the whole training set, and is rebuilt every ``refresh`` events, so that no edge is present when it
is predicted; if nodes have no features, a learned vector per node replaces the paper's one-hot
``X``, and nodes outside training share one; links are learned batch by batch with one negative
each, not on all pairs. The method knows nothing about nodes outside training, so inductive metrics
are not reported.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from contig.models.bases.autoencoder import Autoencoder, AutoencoderOptions
from contig.models.bases.node_inputs import convolutions
from contig.models.contract import DataShape


class GAE(Autoencoder):
    """GAE: a graph autoencoder of two graph convolutions, scored by inner products."""

    name = "gae"
    options = AutoencoderOptions
    training_defaults: ClassVar = {"lr": 1e-2}

    def __init__(self, options: AutoencoderOptions, data: DataShape) -> None:
        super().__init__(options, data)
        self.second = convolutions(self.name).GCNConv(options.hidden, options.dim)

    def encode(self, x: Tensor, edges: Tensor) -> Tensor:
        encoded: Tensor = self.second(self.inner(x, edges), edges)
        return encoded
