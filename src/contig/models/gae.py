"""GAE: a graph autoencoder (Kipf & Welling, "Variational graph auto-encoders", 2016).

Two graph convolutions over the whole graph, ``Z = A' relu(A' X W_0) W_1`` with
``A' = D^-1/2 (A + I) D^-1/2``, and the inner product ``z_u . z_v`` as the logit of a link.

Departures: the graph is that of the pairs that met before the batch and not that of the whole training
set, renewed every ``refresh`` events, so that no edge is there when it is predicted; where nodes have no
features, a learned vector per node stands for the paper's one-hot ``X``, and nodes outside training share
one; links are learned batch by batch with one negative each instead of on all pairs. The method cannot
tell of nodes it was not trained on: no inductive measures are given.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from contig.models.bases.autoencoder import Autoencoder, AutoencoderOptions
from contig.models.bases.static import convolutions
from contig.models.contract import DataShape


class GAE(Autoencoder):
    """See the module's text."""

    name = "gae"
    options = AutoencoderOptions
    training_defaults: ClassVar = {"lr": 1e-2}

    def __init__(self, options: AutoencoderOptions, data: DataShape) -> None:
        super().__init__(options, data)
        self.second = convolutions(self.name).GCNConv(options.hidden, options.dim)

    def encode(self, x: Tensor, edges: Tensor) -> Tensor:
        encoded: Tensor = self.second(self.inner(x, edges), edges)
        return encoded
