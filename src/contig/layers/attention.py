"""Attention of one query per node over its past events."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from contig.kernels.attention import attend
from contig.kernels.gather import LazyRows


class TemporalAttention(nn.Module):
    """Multi-head attention of a node over its last ``k`` events.

    ``q = W_Q x``, ``K = W_K z``, ``V = W_V z``, weights ``softmax(q K / sqrt(d_head))``. There is
    one query per node, so the projections of keys and values are folded onto the query side:
    ``q . (W_K z) = (W_K^T q) . z`` and ``sum a_j W_V z_j = W_V (sum a_j z_j)``. The neighbors
    themselves are never projected, and their parts (state, event features, time) are never
    concatenated. The result of a node without past events is zero.
    """

    def __init__(
        self, query_dim: int, key_dims: Sequence[int], *, inner: int, heads: int = 2, dropout: float = 0.0
    ) -> None:
        super().__init__()
        if inner % heads:
            raise ValueError(f"inner={inner} must be a multiple of heads={heads}")
        self.heads, self.inner = heads, inner
        self.query = nn.Linear(query_dim, inner, bias=False)
        self.key = nn.Linear(sum(key_dims), inner, bias=False)
        self.value = nn.Linear(sum(key_dims), inner, bias=False)
        self.dropout = dropout

    def forward(self, own: Tensor, shared: Tensor, keys: Sequence[LazyRows], mask: Tensor) -> Tensor:
        """Attend with queries ``[own | shared]`` to keys ``[q, k, ...]`` where ``mask`` ``[q, k]`` is true.

        ``own`` is ``[q, own_dim]``. ``shared`` may have a single row, which then belongs to every query
        and is projected once. The result is ``[q, inner]``.
        """
        if _at_most_one_each(mask):
            folded = own.new_zeros((self.heads, len(own), self.key.weight.shape[1]))
        else:
            folded = self._folded(own, shared)
        dropout = self.dropout if self.training else 0.0
        mixed = attend(folded, [key for key in keys if key.width], mask, dropout)
        return torch.bmm(mixed, self._by_head(self.value).transpose(1, 2)).transpose(0, 1).flatten(1)

    def _folded(self, own: Tensor, shared: Tensor) -> Tensor:
        """Return ``W_K^T q`` for every head and query, ``[heads, q, keys]``."""
        head = self.inner // self.heads
        weight, shared_weight = self.query.weight.split([own.shape[1], shared.shape[1]], dim=1)
        scale = 1 / math.sqrt(head)
        queries = torch.addmm(linear(shared, shared_weight), own, weight.t(), beta=scale, alpha=scale)
        queries = queries.view(-1, self.heads, head).transpose(0, 1)  # [heads, q, head]
        return torch.bmm(queries, self._by_head(self.key))

    def _by_head(self, layer: nn.Linear) -> Tensor:
        """Return a layer's weight as ``[heads, head, keys]``."""
        return layer.weight.view(self.heads, self.inner // self.heads, -1)


def _at_most_one_each(mask: Tensor) -> bool:
    """Return whether no query has a choice, so that the weight of a key is 1 whatever the query is.

    Gradients need the queries all the same, and a GPU would have to be waited for.
    """
    return not torch.is_grad_enabled() and mask.device.type == "cpu" and not bool(mask[:, 1:].any())
