"""Recurrent cells whose input comes in several parts."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from contig.kernels.gru import gru_update
from contig.layers.split_linear import split_linear


class SplitGRUCell(nn.GRUCell):
    """``nn.GRUCell`` of several inputs side by side."""

    def forward(self, parts: Sequence[Tensor], h: Tensor) -> Tensor:  # type: ignore[override]
        from_input = split_linear(parts, self.weight_ih, self.bias_ih)
        return gru_update(from_input, linear(h, self.weight_hh, self.bias_hh), h)


class SplitRNNCell(nn.RNNCell):
    """``nn.RNNCell`` (tanh) of several inputs side by side."""

    def forward(self, parts: Sequence[Tensor], h: Tensor) -> Tensor:  # type: ignore[override]
        from_state = linear(h, self.weight_hh, self.bias_hh)
        return torch.tanh(split_linear(parts, self.weight_ih, self.bias_ih) + from_state)
