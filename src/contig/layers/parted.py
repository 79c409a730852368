"""Linear maps of things that stand side by side, some of which are no one's output.

``W [a | b | c] = W_a a + W_b b + W_c c``. Concatenating all would compute gradients of parts that have
none, such as states and features, and they are most of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from contig.kernels.cpu.running import run
from contig.kernels.dispatch import backend

PART = 500  # rows; waking a thread costs about as much as going through some hundred


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
        told, own = (
            parted_linear(parts, self.weight_ih, self.bias_ih),
            linear(h, self.weight_hh, self.bias_hh),
        )
        if backend(h.device) == "numba":
            moved: Tensor = _Gates.apply(told, own, h)  # type: ignore[no-untyped-call]
            return moved
        return _gated(told, own, h)


def _gated(told: Tensor, own: Tensor, h: Tensor) -> Tensor:
    """A GRU's next state from what its two linear maps say ``[n, 3 d]``."""
    (r_in, z_in, n_in), (r_own, z_own, n_own) = told.chunk(3, dim=1), own.chunk(3, dim=1)
    reset, keep = torch.sigmoid(r_in + r_own), torch.sigmoid(z_in + z_own)
    new = torch.tanh(n_in + reset * n_own)
    return torch.lerp(new, h, keep)


class _Gates(torch.autograd.Function):
    """``_gated`` in fewer passes over the memory, which is what a CPU waits for."""

    @staticmethod
    def forward(ctx: Any, told: Tensor, own: Tensor, h: Tensor) -> Tensor:
        width = h.shape[1]
        gates = (told[:, : 2 * width] + own[:, : 2 * width]).sigmoid_()
        reset, keep = gates.chunk(2, dim=1)
        new = torch.addcmul(told[:, 2 * width :], reset, own[:, 2 * width :]).tanh_()
        ctx.save_for_backward(gates, new, own, h)
        return torch.lerp(new, h, keep)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        gates, new, own, h = ctx.saved_tensors
        of_told, of_own = own.new_empty(own.shape), own.new_empty(own.shape)
        run("gates_back", gates, new, own, h, grads[0], of_told, of_own, over=len(h), least=PART)
        return of_told, of_own, grads[0] * gates.chunk(2, dim=1)[1] if ctx.needs_input_grad[2] else None


class RNNCell(nn.RNNCell):
    """``nn.RNNCell`` (tanh) whose input comes in parts."""

    def forward(self, parts: Sequence[Tensor], h: Tensor) -> Tensor:  # type: ignore[override]
        own = linear(h, self.weight_hh, self.bias_hh)
        return torch.tanh(parted_linear(parts, self.weight_ih, self.bias_ih) + own)
