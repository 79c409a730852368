"""Fixed random vectors that tell nodes apart."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class NodeCodes(nn.Module):
    """A vector of random signs for every node, known or yet to come.

    The signs are bits of a hash of the node's number (multiply, fold, multiply), so there is no table to
    keep or to grow; the multipliers are drawn once and saved with the weights.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.multipliers: Tensor
        self.register_buffer("multipliers", torch.randint(-(2**62), 2**62, (2, dim)) * 2 + 1)

    def forward(self, nodes: Tensor) -> Tensor:
        """Node numbers ``[...]`` to signs ``[..., dim]``, as float32."""
        first, second = self.multipliers
        mixed = (nodes.long() + 1).unsqueeze(-1) * first  # wraps around, as it is meant to
        mixed = (mixed ^ (mixed >> 32)) * second
        return torch.where(mixed < 0, -1.0, 1.0)
