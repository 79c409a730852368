"""Rows of a table, taken where they are used.

Attention needs ``[queries, k]`` rows of a table twice: in products with what is asked and in a
weighted sum. Taking them first writes and reads ``queries * k`` rows for nothing, and their products
are too small for a matrix library. On a CPU compiled loops read the table in place; elsewhere torch
operations do the same, which a compiler can fuse with the taking.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from contig.cores import HAS_NUMBA, ranges, side_by_side


class Rows(NamedTuple):
    """``table[at]``, not yet taken: a table ``[rows, width]`` and places in it ``[queries, k]``."""

    table: Tensor
    at: Tensor

    @classmethod
    def of(cls, taken: Tensor) -> Rows:
        """Rows ``[queries, k, width]`` that are there already."""
        count = taken.shape[0] * taken.shape[1]
        return cls(taken.flatten(0, 1), torch.arange(count, device=taken.device).view(taken.shape[:2]))

    @property
    def width(self) -> int:
        return self.table.shape[1]

    def taken(self) -> Tensor:
        """``[queries, k, width]``."""
        rows: Tensor = self.table.index_select(0, self.at.flatten())
        return rows.view(*self.at.shape, self.width)


def dot(asked: Tensor, rows: Rows, mask: Tensor) -> Tensor:
    """``asked[h, q] . row[q, j]`` as ``[heads, queries, k]``; 0 where ``mask`` ``[queries, k]`` is false."""
    if _in_loops(asked):
        found: Tensor = _Dot.apply(asked, rows.table, rows.at, mask)  # type: ignore[no-untyped-call]
        return found
    return (asked.unsqueeze(2) * rows.taken()).sum(-1) * mask


def mix(weights: Tensor, rows: Rows, mask: Tensor) -> Tensor:
    """``sum_j weights[h, q, j] row[q, j]`` as ``[heads, queries, width]``, over ``mask`` alone."""
    if _in_loops(weights):
        found: Tensor = _Mix.apply(weights, rows.table, rows.at, mask)  # type: ignore[no-untyped-call]
        return found
    return ((weights * mask).unsqueeze(-1) * rows.taken()).sum(2)


def _in_loops(x: Tensor) -> bool:
    return x.device.type == "cpu" and HAS_NUMBA


def _run(name: str, *given: Tensor, out: Tensor, over: int) -> Tensor:
    """A loop of ``contig.layers.loops``, its axis of ``over`` items shared among the threads."""
    from contig.layers import loops  # here, since compiling takes numba

    arrays = [x.detach().contiguous().numpy() for x in given]
    target, loop = out.numpy(), getattr(loops, name)
    side_by_side(lambda first, end: loop(*arrays, target, first, end), ranges(over, torch.get_num_threads()))
    return out


class _Dot(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, asked: Tensor, table: Tensor, at: Tensor, mask: Tensor) -> Tensor:
        ctx.save_for_backward(asked, table, at, mask)
        out = asked.new_zeros(len(asked), *at.shape)
        return _run("dot", asked, table, at, mask, out=out, over=len(at))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        asked, table, at, mask = ctx.saved_tensors
        of_asked = of_table = None
        if ctx.needs_input_grad[0]:
            of_asked = _run("mix", grads[0], table, at, mask, out=torch.zeros_like(asked), over=len(at))
        if ctx.needs_input_grad[1]:
            of_table = _scattered(grads[0], asked, table, at, mask)
        return of_asked, of_table, None, None


class _Mix(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weights: Tensor, table: Tensor, at: Tensor, mask: Tensor) -> Tensor:
        ctx.save_for_backward(weights, table, at, mask)
        out = weights.new_zeros(len(weights), len(at), table.shape[1])
        return _run("mix", weights, table, at, mask, out=out, over=len(at))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        weights, table, at, mask = ctx.saved_tensors
        of_weights = of_table = None
        if ctx.needs_input_grad[0]:
            of_weights = _run("dot", grads[0], table, at, mask, out=torch.zeros_like(weights), over=len(at))
        if ctx.needs_input_grad[1]:
            of_table = _scattered(weights, grads[0], table, at, mask)
        return of_weights, of_table, None, None


def _scattered(weights: Tensor, given: Tensor, table: Tensor, at: Tensor, mask: Tensor) -> Tensor:
    """The gradient of the table: what each row was multiplied with, summed over its places."""
    return _run("scatter", weights, given, at, mask, out=torch.zeros_like(table), over=table.shape[1])
