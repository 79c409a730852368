"""Weighted sums of rows, one program per sum and block of columns.

The gradient is the same kind of sum: the slots are sorted by the row they read, so that each row of the table
collects its gradients itself, in a fixed order and without atomic additions onto rows that many sums read.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_kernel: Any = triton.jit
BLOCK = 256  # columns per program


@_kernel  # type: ignore[untyped-decorator]
def _sum(table, index, weight, out, width, slots, block: tl.constexpr):  # type: ignore[no-untyped-def]
    target = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * block + tl.arange(0, block)
    inside = column < width
    total = tl.zeros([block], dtype=tl.float32)
    for j in range(slots):
        w = tl.load(weight + target * slots + j)
        if w != 0:
            row = tl.load(index + target * slots + j)
            total += w * tl.load(table + row * width + column, mask=inside, other=0.0)
    tl.store(out + target * width + column, total, mask=inside)


@_kernel  # type: ignore[untyped-decorator]
def _collect(grad, order, start, weight, out, width, slots, block: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * block + tl.arange(0, block)
    inside = column < width
    total = tl.zeros([block], dtype=tl.float32)
    first, end = tl.load(start + row), tl.load(start + row + 1)
    for k in range(first, end):
        slot = tl.load(order + k)
        w = tl.load(weight + slot)
        total += w * tl.load(grad + (slot // slots) * width + column, mask=inside, other=0.0)
    tl.store(out + row * width + column, total, mask=inside)


@torch.library.custom_op("contig::weighted_rows", mutates_args=())
def weighted_rows(table: Tensor, index: Tensor, weight: Tensor) -> Tensor:
    """Compute ``contig.kernels.weighted_rows.weighted_rows`` in float32."""
    out = table.new_empty(len(index), table.shape[1])
    inputs = [x.contiguous() for x in (table, index, weight.to(table.dtype))]
    if out.numel():
        grid = (len(index), triton.cdiv(table.shape[1], BLOCK))
        _sum[grid](*inputs, out, table.shape[1], index.shape[1], block=BLOCK)
    return out


@weighted_rows.register_fake
def _(table: Tensor, index: Tensor, weight: Tensor) -> Tensor:
    return table.new_empty(len(index), table.shape[1])


@torch.library.custom_op("contig::weighted_rows_back", mutates_args=())
def weighted_rows_back(grad: Tensor, index: Tensor, weight: Tensor, rows: int) -> Tensor:
    """Compute the gradient of ``weighted_rows`` with respect to a table of ``rows`` rows."""
    out = grad.new_zeros(rows, grad.shape[1])
    if not out.numel() or not index.numel():
        return out
    grad, weight = grad.contiguous(), weight.to(grad.dtype).contiguous()
    read = torch.where(weight != 0, index, rows).flatten()  # slots that are not read come last
    row, order = torch.sort(read, stable=True)
    start = torch.searchsorted(row, torch.arange(rows + 1, device=grad.device))
    grid = (rows, triton.cdiv(grad.shape[1], BLOCK))
    _collect[grid](grad, order, start, weight, out, grad.shape[1], index.shape[1], block=BLOCK)
    return out


@weighted_rows_back.register_fake
def _(grad: Tensor, index: Tensor, weight: Tensor, rows: int) -> Tensor:
    return grad.new_empty(rows, grad.shape[1])


def _setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
    table, index, weight = inputs
    ctx.save_for_backward(index, weight)
    ctx.rows = len(table)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
    index, weight = ctx.saved_tensors
    return weighted_rows_back(grad, index, weight, ctx.rows), None, None


weighted_rows.register_autograd(_backward, setup_context=_setup_context)
