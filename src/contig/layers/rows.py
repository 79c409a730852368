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


def attend(asked: Sequence[Tensor], keys: Sequence[Rows], mask: Tensor, dropout: float = 0.0) -> list[Tensor]:
    """``sum_j a_j key_j`` for each table, ``[heads, queries, width]``, with ``a = softmax_j(asked . key_j)``.

    ``asked`` has ``[heads, queries, width]`` for each table. Only rows where ``mask`` ``[queries, k]`` is
    true count; a query without any gets zeros. ``dropout`` is the share of weights that are set to 0.
    """
    keep = _kept(asked[0], mask, dropout)
    if asked[0].device.type == "cpu" and HAS_NUMBA:
        tables, places = [key.table for key in keys], [key.at for key in keys]
        found: tuple[Tensor, ...] = _InLoops.apply(mask, keep, len(keys), *asked, *tables, *places)  # type: ignore[no-untyped-call]
        return list(found)
    taken = [key.taken() for key in keys]
    logits = torch.stack([(a.unsqueeze(2) * z).sum(-1) for a, z in zip(asked, taken, strict=True)]).sum(0)
    weights = _softmax(logits, mask)
    weights = weights if keep is None else weights * keep
    return [(weights.unsqueeze(-1) * z).sum(2) for z in taken]


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


class _InLoops(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, mask: Tensor, keep: Tensor | None, count: int, *given: Tensor
    ) -> tuple[Tensor, ...]:
        asked, tables, places = given[:count], given[count : 2 * count], given[2 * count :]
        logits = asked[0].new_zeros(len(asked[0]), *mask.shape)
        for part in zip(asked, tables, places, strict=True):
            _run("dot", *part, mask, out=logits, over=len(mask))
        weights = _softmax(logits, mask)
        kept = weights if keep is None else weights * keep
        ctx.save_for_backward(mask, keep, weights, *given)
        ctx.count = count
        return tuple(_mixed(kept, *part, mask) for part in zip(tables, places, strict=True))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        mask, keep, weights, *given = ctx.saved_tensors
        count = ctx.count
        asked, tables, places = given[:count], given[count : 2 * count], given[2 * count :]
        of_kept = torch.zeros_like(weights)
        for grad, table, at in zip(grads, tables, places, strict=True):
            _run("dot", grad, table, at, mask, out=of_kept, over=len(mask))
        kept = weights if keep is None else weights * keep
        of_weights = of_kept if keep is None else of_kept * keep
        of_logits = weights * (of_weights - (weights * of_weights).sum(-1, keepdim=True))
        of_asked = [_mixed(of_logits, table, at, mask) for table, at in zip(tables, places, strict=True)]
        of_tables: list[Tensor | None] = []
        for i, (a, grad, table, at) in enumerate(zip(asked, grads, tables, places, strict=True)):
            of_tables.append(None)
            if ctx.needs_input_grad[3 + count + i]:
                out = torch.zeros_like(table)
                _run("scatter", of_logits, a, at, mask, out=out, over=table.shape[1])
                of_tables[i] = _run("scatter", kept, grad, at, mask, out=out, over=table.shape[1])
        return (None, None, None, *of_asked, *of_tables, *(None,) * count)


def _mixed(weights: Tensor, table: Tensor, at: Tensor, mask: Tensor) -> Tensor:
    out = weights.new_zeros(len(weights), len(at), table.shape[1])
    return _run("mix", weights, table, at, mask, out=out, over=len(at))


def _run(name: str, *given: Tensor, out: Tensor, over: int) -> Tensor:
    """A loop of ``contig.layers.loops``, its axis of ``over`` items shared among the threads."""
    from contig.layers import loops  # here, since compiling takes numba

    arrays = [x.detach().contiguous().numpy() for x in given]
    target, loop = out.numpy(), getattr(loops, name)
    side_by_side(lambda first, end: loop(*arrays, target, first, end), ranges(over, torch.get_num_threads()))
    return out
