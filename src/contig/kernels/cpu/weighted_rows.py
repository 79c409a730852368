"""Weighted sums of rows, without the copies of the rows that torch would make."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from contig.data.columns import Array
from contig.kernels.cpu.launch import compile_loop, run_loop

MIN_COLUMNS = 256  # per thread


def weighted_rows(table: Tensor, index: Tensor, weight: Tensor) -> Tensor:
    """Compute ``contig.kernels.weighted_rows.weighted_rows``."""
    sums: Tensor = _WeightedRows.apply(table, index, weight.to(table.dtype))  # type: ignore[no-untyped-call]
    return sums


class _WeightedRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(index, weight)
        ctx.rows = len(table)
        out: Tensor = table.new_empty(len(index), table.shape[1])
        run_loop(_sum, (table, index, weight), (out,), items=len(index))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        index, weight = ctx.saved_tensors
        out = grads[0].new_zeros(ctx.rows, grads[0].shape[1])
        run_loop(_spread, (grads[0], index, weight), (out,), items=out.shape[1], min_items=MIN_COLUMNS)
        return out, None, None


@compile_loop
def _sum(table: Array, index: Array, weight: Array, out: Array, first: int, end: int) -> None:
    """Compute the sums ``first..end``."""
    width = table.shape[1]
    for i in range(first, end):
        target = out[i]
        for c in range(width):
            target[c] = 0
        for j in range(index.shape[1]):
            w = weight[i, j]
            if w != 0:
                if not 0 <= index[i, j] < len(table):
                    raise IndexError("weighted_rows: a row index is out of range")
                row = table[index[i, j]]
                for c in range(width):
                    target[c] += w * row[c]


@compile_loop
def _spread(grad: Array, index: Array, weight: Array, out: Array, first: int, end: int) -> None:
    """Add the gradients of the table's columns ``first..end``; threads share columns, so no order changes."""
    for i in range(len(index)):
        row = grad[i, first:end]
        for j in range(index.shape[1]):
            w = weight[i, j]
            if w != 0:
                target = out[index[i, j], first:end]
                for c in range(end - first):
                    target[c] += w * row[c]
