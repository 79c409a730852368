"""Attention over rows of tables, taken where they are used.

A query attends to ``k`` rows of each of several tables, which are needed twice: in products with what is
asked and in a weighted sum. Taking them first writes and reads ``queries * k`` rows for nothing, and
their products are too small for a matrix library. On a CPU compiled loops read the tables in place;
elsewhere torch operations do the same, which a compiler can fuse with the taking.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from contig.kernels.cpu.running import run
from contig.kernels.dispatch import backend

NARROW = 512  # columns; of fewer a thread alone adds rows up as fast as two


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


def take(table: Tensor, at: Tensor) -> Tensor:
    """``table[at]`` of places ``[n]``, whose gradient torch gathers slowly where threads share the work."""
    if backend(table.device) == "numba" and table.requires_grad:
        taken: Tensor = _Taken.apply(table, at)  # type: ignore[no-untyped-call]
        return taken
    return table.index_select(0, at)


def attend(asked: Tensor, keys: Sequence[Rows], mask: Tensor, dropout: float = 0.0) -> Tensor:
    """``sum_j a_j key_j`` with ``a = softmax_j(asked . key_j)``, all ``[heads, queries, width]``.

    A key is a row of every table, side by side, and so ``width`` is the sum of theirs. Only rows where
    ``mask`` ``[queries, k]`` is true count; a query without any gets zeros. ``dropout`` is the share of
    weights that are set to 0.
    """
    keep = _kept(asked, mask, dropout)
    if backend(asked.device) == "numba":
        tables, places = [key.table for key in keys], [key.at for key in keys]
        found: Tensor = _InLoops.apply(mask, keep, asked, *tables, *places)  # type: ignore[no-untyped-call]
        return found
    taken = [key.taken() for key in keys]
    parts = zip(asked.split([key.width for key in keys], dim=2), taken, strict=True)
    logits = torch.stack([(a.unsqueeze(2) * z).sum(-1) for a, z in parts]).sum(0)
    weights = _softmax(logits, mask)
    weights = weights if keep is None else weights * keep
    return torch.cat([(weights.unsqueeze(-1) * z).sum(2) for z in taken], dim=2)


def _kept(asked: Tensor, mask: Tensor, dropout: float) -> Tensor | None:
    """Which weights ``[heads, queries, k]`` stay, and by how much they grow for it; None is all."""
    if not dropout:
        return None
    kept = torch.empty((len(asked), *mask.shape), dtype=asked.dtype, device=asked.device)
    return kept.bernoulli_(1 - dropout).div_(1 - dropout)


def _softmax(logits: Tensor, mask: Tensor) -> Tensor:
    logits = logits.masked_fill(~mask, torch.finfo(logits.dtype).min)
    return torch.softmax(logits, dim=-1) * mask


# -- compiled loops -------------------------------------------------------------------------------------


class _Taken(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, at: Tensor) -> Tensor:
        ctx.save_for_backward(at)
        ctx.shape = table.shape
        return table.index_select(0, at)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        out = grads[0].new_zeros(ctx.shape)
        run("add_rows", grads[0], ctx.saved_tensors[0], out, over=out.shape[1], least=NARROW)
        return out, None


class _InLoops(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, mask: Tensor, keep: Tensor | None, asked: Tensor, *keys: Tensor) -> Tensor:
        tables, places = keys[: len(keys) // 2], keys[len(keys) // 2 :]
        weights = asked.new_empty(len(asked), *mask.shape)
        keep = torch.ones_like(weights) if keep is None else keep
        out = asked.new_empty(asked.shape)
        run("attend", asked, tables, places, mask, keep, weights, out, over=len(mask))
        ctx.save_for_backward(mask, keep, weights, asked, *keys)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        mask, keep, weights, asked, *keys = ctx.saved_tensors
        tables, places = tuple(keys[: len(keys) // 2]), tuple(keys[len(keys) // 2 :])
        asked, grad = asked.contiguous(), grads[0].contiguous()
        of_logits, of_asked = torch.empty_like(weights), torch.empty_like(asked)
        run(
            "attend_back",
            *(asked, tables, places, mask, keep, weights, grad, of_logits, of_asked),
            over=len(mask),
        )
        kept, start = weights * keep, 0
        of_tables: list[Tensor | None] = []
        for i, (table, at) in enumerate(zip(tables, places, strict=True)):
            of_tables.append(None)
            if ctx.needs_input_grad[3 + i]:
                of_tables[i] = out = table.new_zeros(table.shape)
                given = (of_logits, asked, kept, grad, at, mask, start, out)
                run("scatter", *given, over=table.shape[1])
            start += table.shape[1]
        return (None, None, of_asked, *of_tables, *(None,) * len(places))
