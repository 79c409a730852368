"""The gates of a GRU in fewer passes over memory, which is what limits a CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from contig.data.columns import Array
from contig.kernels.cpu.launch import compile_loop, run_loop

MIN_ROWS = 500  # per thread; waking one costs about as much as some hundred rows


def gru_update(from_input: Tensor, from_state: Tensor, state: Tensor) -> Tensor:
    """Compute ``contig.kernels.gru.gru_update``."""
    updated: Tensor = _Update.apply(from_input, from_state, state)  # type: ignore[no-untyped-call]
    return updated


class _Update(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, from_input: Tensor, from_state: Tensor, state: Tensor) -> Tensor:
        width = state.shape[1]
        gates = (from_input[:, : 2 * width] + from_state[:, : 2 * width]).sigmoid_()
        reset, keep = gates.chunk(2, dim=1)
        new = torch.addcmul(from_input[:, 2 * width :], reset, from_state[:, 2 * width :]).tanh_()
        ctx.save_for_backward(gates, new, from_state, state)
        return torch.lerp(new, state, keep)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        gates, new, from_state, state = ctx.saved_tensors
        grad_input, grad_own = (from_state.new_empty(from_state.shape) for _ in range(2))
        run_loop(
            _backward,
            (gates, new, from_state, state, grads[0]),
            (grad_input, grad_own),
            items=len(state),
            min_items=MIN_ROWS,
        )
        keep = gates.chunk(2, dim=1)[1]
        return grad_input, grad_own, grads[0] * keep if ctx.needs_input_grad[2] else None


@compile_loop
def _backward(
    gates: Array,
    new: Array,
    from_state: Array,
    state: Array,
    grad: Array,
    grad_input: Array,
    grad_own: Array,
    first: int,
    end: int,
) -> None:
    """Compute the gradients of both linear maps for rows ``first..end``."""
    width, one = state.shape[1], state.dtype.type(1)
    for i in range(first, end):
        reset, keep, n, up = gates[i, :width], gates[i, width:], new[i], grad[i]
        to_reset, to_keep = grad_input[i, :width], grad_input[i, width : 2 * width]
        to_new, to_own_new = grad_input[i, 2 * width :], grad_own[i, 2 * width :]
        new_own, before = from_state[i, 2 * width :], state[i]
        for c in range(width):
            to_new[c] = up[c] * (one - keep[c]) * (one - n[c] * n[c])
        for c in range(width):
            to_keep[c] = up[c] * (before[c] - n[c]) * keep[c] * (one - keep[c])
        for c in range(width):
            to_reset[c] = to_new[c] * new_own[c] * reset[c] * (one - reset[c])
        for c in range(width):
            to_own_new[c] = to_new[c] * reset[c]
        gate_grads, own_gate_grads = grad_input[i, : 2 * width], grad_own[i, : 2 * width]
        for c in range(2 * width):
            own_gate_grads[c] = gate_grads[c]
