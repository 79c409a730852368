"""Linear maps of things that stand side by side, some of which are no one's output.

``W [a | b | c] = W_a a + W_b b + W_c c``. Concatenating all would compute gradients of parts that have
none, such as states and features, and they are most of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import torch
from torch import Tensor, nn
from torch.nn.functional import linear


def parted_linear(parts: Sequence[Tensor], weight: Tensor, bias: Tensor) -> Tensor:
    """``linear(cat(parts, 1), weight, bias)`` for parts ``[n, width]``.

    Neighbouring parts without a gradient are one product: they are copied, but nothing is computed back.
    """
    groups = [list(group) for _, group in groupby(parts, key=lambda part: part.requires_grad)]
    total = bias
    for group, piece in zip(
        groups, weight.split([sum(p.shape[1] for p in g) for g in groups], 1), strict=True
    ):
        if piece.shape[1]:
            total = torch.addmm(total, torch.cat(group, dim=1), piece.t())
    return total


class PartedLinear(nn.Linear):
    """``nn.Linear`` on a sequence of parts."""

    def forward(self, *parts: Tensor) -> Tensor:
        return parted_linear(parts, self.weight, self.bias)


class GRUCell(nn.GRUCell):
    """``nn.GRUCell`` whose input comes in parts."""

    def forward(self, parts: Sequence[Tensor], h: Tensor) -> Tensor:  # type: ignore[override]
        r_in, z_in, n_in = parted_linear(parts, self.weight_ih, self.bias_ih).chunk(3, dim=1)
        r_own, z_own, n_own = linear(h, self.weight_hh, self.bias_hh).chunk(3, dim=1)
        reset, keep = torch.sigmoid(r_in + r_own), torch.sigmoid(z_in + z_own)
        new = torch.tanh(n_in + reset * n_own)
        return torch.lerp(new, h, keep)


class RNNCell(nn.RNNCell):
    """``nn.RNNCell`` (tanh) whose input comes in parts."""

    def forward(self, parts: Sequence[Tensor], h: Tensor) -> Tensor:  # type: ignore[override]
        own = linear(h, self.weight_hh, self.bias_hh)
        return torch.tanh(parted_linear(parts, self.weight_ih, self.bias_ih) + own)
