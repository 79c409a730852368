"""Attention over rows of tables that are gathered only where they are used.

Every query attends to ``k`` keys, and a key is one row of each of several tables, side by side. The
rows are needed twice: for the dot products and for the weighted sum. Gathering them first would
write and read ``queries * k`` rows for nothing, and the products are too small for a matrix
library. On a CPU compiled loops read the tables in place; on a GPU torch's compiler fuses the
gathering into the reference below.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from contig.kernels.dispatch import backend
from contig.kernels.gather import LazyRows


def attend(queries: Tensor, keys: Sequence[LazyRows], mask: Tensor, dropout: float = 0.0) -> Tensor:
    """Compute ``sum_j a_j key_j`` with ``a = softmax_j(query . key_j)``.

    Queries and results are ``[heads, queries, width]``, where ``width`` is the total of the tables.
    Only keys where ``mask`` ``[queries, k]`` is true count; a query without any gets zeros.
    ``dropout`` is the probability of setting a weight to 0.
    """
    keep = _dropout_factors(queries, mask, dropout)
    if backend(queries.device) == "numba":
        from contig.kernels.cpu import attention as compiled

        return compiled.attend(queries, keys, mask, keep)
    return _attend(queries, keys, mask, keep)


def _attend(queries: Tensor, keys: Sequence[LazyRows], mask: Tensor, keep: Tensor | None) -> Tensor:
    gathered = [key.gather() for key in keys]
    parts = zip(queries.split([key.width for key in keys], dim=2), gathered, strict=True)
    logits = torch.stack([(query.unsqueeze(2) * key).sum(-1) for query, key in parts]).sum(0)
    weights = _masked_softmax(logits, mask)
    weights = weights if keep is None else weights * keep
    return torch.cat([(weights.unsqueeze(-1) * key).sum(2) for key in gathered], dim=2)


def _dropout_factors(queries: Tensor, mask: Tensor, dropout: float) -> Tensor | None:
    """Draw the factors of the weights ``[heads, queries, k]``: 0, or what keeps their mean at 1."""
    if not dropout:
        return None
    keep = torch.empty((len(queries), *mask.shape), dtype=queries.dtype, device=queries.device)
    return keep.bernoulli_(1 - dropout).div_(1 - dropout)


def _masked_softmax(logits: Tensor, mask: Tensor) -> Tensor:
    logits = logits.masked_fill(~mask, torch.finfo(logits.dtype).min)
    return torch.softmax(logits, dim=-1) * mask
