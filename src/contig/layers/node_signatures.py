"""Fixed random vectors that distinguish nodes."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class NodeSignatures(nn.Module):
    """A fixed vector of random signs for every node, including nodes that have not appeared yet.

    The signs are bits of a hash of the node's id (multiply, fold, multiply), so there is no table to
    store or to grow. The multipliers are drawn once and saved with the weights.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.multipliers: Tensor
        self.register_buffer("multipliers", torch.randint(-(2**62), 2**62, (2, dim)) * 2 + 1)

    def forward(self, nodes: Tensor) -> Tensor:
        """Map node ids ``[...]`` to signs ``[..., dim]`` in float32."""
        first, second = self.multipliers
        mixed = (nodes.long() + 1).unsqueeze(-1) * first  # overflow wraps around on purpose
        mixed = (mixed ^ (mixed >> 32)) * second
        return torch.where(mixed < 0, -1.0, 1.0)
