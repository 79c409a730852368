"""Linear maps of concatenated inputs, without the concatenation.

``W [a | b | c] = W_a a + W_b b + W_c c``. After a concatenation, gradients would be computed for all of
it, and most inputs here (stored states, event features) need none.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import torch
from torch import Tensor, nn


def split_linear(parts: Sequence[Tensor], weight: Tensor, bias: Tensor) -> Tensor:
    """Compute ``linear(cat(parts, 1), weight, bias)`` for parts ``[n, width]``.

    Neighboring parts that all need gradients, or all need none, share one product.
    """
    groups = [list(group) for _, group in groupby(parts, key=lambda part: part.requires_grad)]
    weights = weight.split([sum(part.shape[1] for part in group) for group in groups], dim=1)
    total = bias
    for group, piece in zip(groups, weights, strict=True):
        if piece.shape[1]:
            total = torch.addmm(total, torch.cat(group, dim=1), piece.t())
    return total


class SplitLinear(nn.Linear):
    """``nn.Linear`` of several inputs side by side."""

    def forward(self, *parts: Tensor) -> Tensor:
        return split_linear(parts, self.weight, self.bias)
