"""Attention over rows of tables, read in place.

Arrays of queries and results are ``[heads, queries, columns]``, the columns of the tables side by
side. ``index[p][q, j]`` is the row of table ``p`` that belongs to key ``j`` of query ``q``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from contig.data.columns import Array
from contig.kernels.cpu.launch import compile_loop, run_loop
from contig.kernels.gather import LazyRows


def attend(queries: Tensor, keys: Sequence[LazyRows], mask: Tensor, keep: Tensor | None) -> Tensor:
    """Compute ``contig.kernels.attention.attend`` for given dropout factors ``keep``."""
    tables, indices = [key.table for key in keys], [key.indices for key in keys]
    mixed: Tensor = _Attend.apply(mask, keep, queries, *tables, *indices)  # type: ignore[no-untyped-call]
    return mixed


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, mask: Tensor, keep: Tensor | None, queries: Tensor, *keys: Tensor) -> Tensor:
        tables, indices = keys[: len(keys) // 2], keys[len(keys) // 2 :]
        weights = queries.new_empty(len(queries), *mask.shape)
        keep = torch.ones_like(weights) if keep is None else keep
        out = queries.new_empty(queries.shape)
        run_loop(_forward, (queries, tables, indices, mask, keep), (weights, out), items=len(mask))
        ctx.save_for_backward(mask, keep, weights, queries, *keys)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        mask, keep, weights, queries, *keys = ctx.saved_tensors
        tables, indices = tuple(keys[: len(keys) // 2]), tuple(keys[len(keys) // 2 :])
        queries, grad = queries.contiguous(), grads[0].contiguous()
        grad_logits, grad_queries = torch.empty_like(weights), torch.empty_like(queries)
        run_loop(
            _backward,
            (queries, tables, indices, mask, keep, weights, grad),
            (grad_logits, grad_queries),
            items=len(mask),
        )
        kept, start = weights * keep, 0
        grad_tables: list[Tensor | None] = []
        for i, (table, index) in enumerate(zip(tables, indices, strict=True)):
            grad_tables.append(None)
            if ctx.needs_input_grad[3 + i]:
                grad_tables[i] = out = table.new_zeros(table.shape)
                inputs = (grad_logits, queries, kept, grad, index, mask, start)
                run_loop(_add_table_gradient, inputs, (out,), items=table.shape[1])
            start += table.shape[1]
        return (None, None, grad_queries, *grad_tables, *(None,) * len(indices))


@compile_loop
def _check_indices(
    tables: tuple[Array, ...], index: tuple[Array, ...], mask: Array, first: int, end: int
) -> None:
    """Raise ``IndexError`` where the loops below would read outside of a table."""
    for p in range(len(tables)):
        for q in range(first, end):
            for j in range(mask.shape[1]):
                if mask[q, j] and not 0 <= index[p][q, j] < len(tables[p]):
                    raise IndexError("attend: an index is outside of its table")


@compile_loop
def _dot_products(
    vectors: Array, tables: tuple[Array, ...], index: tuple[Array, ...], q: int, j: int, out: Array
) -> None:
    """Set ``out[h]`` to the product of ``vectors[h, q]`` with key ``j`` of query ``q``."""
    for h in range(len(out)):
        out[h] = 0
    start = 0
    for p in range(len(tables)):
        row = tables[p][index[p][q, j]]
        for h in range(len(out)):
            vector = vectors[h, q, start : start + len(row)]
            total = out.dtype.type(0)
            for c in range(len(row)):
                total += vector[c] * row[c]
            out[h] += total
        start += len(row)


@compile_loop
def _add_weighted_key(
    weights: Array, tables: tuple[Array, ...], index: tuple[Array, ...], q: int, j: int, out: Array
) -> None:
    """Add ``weights[h]`` times key ``j`` of query ``q`` to ``out[h, q]``."""
    start = 0
    for p in range(len(tables)):
        row = tables[p][index[p][q, j]]
        for h in range(len(weights)):
            target, weight = out[h, q, start : start + len(row)], weights[h]
            for c in range(len(row)):
                target[c] += weight * row[c]
        start += len(row)


@compile_loop
def _forward(
    queries: Array,
    tables: tuple[Array, ...],
    index: tuple[Array, ...],
    mask: Array,
    keep: Array,
    weights: Array,
    out: Array,
    first: int,
    end: int,
) -> None:
    """Compute the attention weights and the weighted sums of queries ``first..end``."""
    _check_indices(tables, index, mask, first, end)
    heads, k = len(queries), mask.shape[1]
    logits = np.empty((k, heads), queries.dtype)
    for q in range(first, end):
        out[:, q] = 0
        weights[:, q] = 0
        for j in range(k):
            if mask[q, j]:
                _dot_products(queries, tables, index, q, j, logits[j])
        for h in range(heads):
            top, total = -queries.dtype.type(np.inf), queries.dtype.type(0)
            for j in range(k):
                if mask[q, j]:
                    top = max(top, logits[j, h])
            for j in range(k):
                if mask[q, j]:
                    weights[h, q, j] = np.exp(logits[j, h] - top)
                    total += weights[h, q, j]
            for j in range(k):
                if mask[q, j]:
                    weights[h, q, j] /= total
                    logits[j, h] = weights[h, q, j] * keep[h, q, j]
        for j in range(k):
            if mask[q, j]:
                _add_weighted_key(logits[j], tables, index, q, j, out)


@compile_loop
def _backward(
    queries: Array,
    tables: tuple[Array, ...],
    index: tuple[Array, ...],
    mask: Array,
    keep: Array,
    weights: Array,
    grad: Array,
    grad_logits: Array,
    grad_queries: Array,
    first: int,
    end: int,
) -> None:
    """Compute the gradients of the logits and of queries ``first..end``."""
    heads, k = len(queries), mask.shape[1]
    grad_weights = np.empty((k, heads), queries.dtype)
    for q in range(first, end):
        grad_queries[:, q] = 0
        grad_logits[:, q] = 0
        for j in range(k):
            if mask[q, j]:
                _dot_products(grad, tables, index, q, j, grad_weights[j])
        for h in range(heads):
            mean = queries.dtype.type(0)
            for j in range(k):
                if mask[q, j]:
                    grad_weights[j, h] *= keep[h, q, j]
                    mean += weights[h, q, j] * grad_weights[j, h]
            for j in range(k):
                if mask[q, j]:
                    grad_weights[j, h] = weights[h, q, j] * (grad_weights[j, h] - mean)
                    grad_logits[h, q, j] = grad_weights[j, h]
        for j in range(k):
            if mask[q, j]:
                _add_weighted_key(grad_weights[j], tables, index, q, j, grad_queries)


@compile_loop
def _add_table_gradient(
    grad_logits: Array,
    queries: Array,
    kept: Array,
    grad: Array,
    index: Array,
    mask: Array,
    start: int,
    out: Array,
    first: int,
    end: int,
) -> None:
    """Add up the gradient of a table whose columns begin at ``start``, for its columns ``first..end``."""
    left, right = start + first, start + end
    for q in range(len(index)):
        for j in range(index.shape[1]):
            if mask[q, j]:
                row = out[index[q, j], first:end]
                for h in range(len(queries)):
                    a, query = grad_logits[h, q, j], queries[h, q, left:right]
                    b, up = kept[h, q, j], grad[h, q, left:right]
                    for c in range(end - first):
                        row[c] += a * query[c] + b * up[c]
