"""VGAE: a variational graph autoencoder.

Kipf and Welling, "Variational graph auto-encoders" (2016).

``q(z_v) = N(mu_v, diag(sigma_v^2))`` with ``mu = A' H W_mu``, ``log sigma = A' H W_sigma``,
``H = relu(A' X W_0)``; the logit of a link is ``z_u . z_v``, where ``z`` is sampled in training and
``z = mu`` otherwise. The loss is the negative evidence lower bound over pairs: cross-entropy, plus
``1/n`` times the mean over the ``n`` nodes of ``KL(q(z_v) | N(0, I))``, which is
``-1/2 sum(1 + 2 log sigma - mu^2 - sigma^2)``.

Departures from the paper: those of ``contig.models.gae``; the ``n`` nodes are those with an event
in the graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from contig.history import History
from contig.models.bases.autoencoder import Autoencoder, AutoencoderOptions
from contig.models.bases.node_inputs import convolutions
from contig.models.contract import DataShape, EventBatch
from contig.models.state import NodeState
from contig.options import option

LARGEST_LOG_SIGMA = 10.0  # far larger values overflow when sampled


@dataclass(frozen=True)
class VGAEOptions(AutoencoderOptions):
    """Options of VGAE."""

    divergence: float = option(1.0, "weight of the KL divergence; 1 gives the evidence lower bound", low=0)


class VGAE(Autoencoder):
    """VGAE: a variational graph autoencoder, scored by inner products."""

    name = "vgae"
    options = VGAEOptions
    training_defaults: ClassVar = {"lr": 1e-2}
    opt: VGAEOptions

    def __init__(self, options: VGAEOptions, data: DataShape) -> None:
        super().__init__(options, data)
        conv = convolutions(self.name).GCNConv
        self.mean, self.log_sigma = (conv(options.hidden, options.dim) for _ in range(2))

    def encode(self, x: Tensor, edges: Tensor) -> Tensor:
        mean, log_sigma = self.distribution(x, edges)
        return mean + torch.randn_like(mean) * log_sigma.exp() if self.training else mean

    def distribution(self, x: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and log standard deviation of each node's vector, both ``[nodes, d]``."""
        inner = self.inner(x, edges)
        return self.mean(inner, edges), self.log_sigma(inner, edges).clamp(max=LARGEST_LOG_SIGMA)

    def penalty(self, state: NodeState, history: History, batch: EventBatch, negative: Tensor) -> Tensor:
        pairs, position = self._past(history, batch.as_of)
        graph = pairs.graph(position)
        mean, log_sigma = self.distribution(self._inputs(graph), graph.edges)
        return self.opt.divergence * divergence(mean, log_sigma).mean() / len(mean)


def divergence(mean: Tensor, log_sigma: Tensor) -> Tensor:
    """Return ``KL(N(mean, sigma^2) | N(0, 1))`` of each row of ``[n, d]``, summed over dimensions."""
    return -0.5 * (1 + 2 * log_sigma - mean.square() - (2 * log_sigma).exp()).sum(dim=1)
