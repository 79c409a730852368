"""Gathering rows, whose gradient torch adds up slowly where several threads share the work."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from contig.data.columns import Array
from contig.kernels.cpu.launch import compile_loop, run_loop

MIN_COLUMNS = 512  # per thread; with fewer, one thread alone is as fast as two


def gather_rows(table: Tensor, index: Tensor) -> Tensor:
    """Compute ``contig.kernels.gather.gather_rows``."""
    rows: Tensor = _GatherRows.apply(table, index)  # type: ignore[no-untyped-call]
    return rows


class _GatherRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.shape = table.shape
        return table.index_select(0, index)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        out = grads[0].new_zeros(ctx.shape)
        inputs = (grads[0], ctx.saved_tensors[0])
        run_loop(add_rows, inputs, (out,), items=out.shape[1], min_items=MIN_COLUMNS)
        return out, None


@compile_loop
def add_rows(rows: Array, index: Array, out: Array, first: int, end: int) -> None:
    """Compute ``out[index[i]] += rows[i]`` for columns ``first..end``."""
    for i in range(len(index)):
        target, row = out[index[i], first:end], rows[i, first:end]
        for c in range(end - first):
            target[c] += row[c]
