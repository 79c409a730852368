"""Attention of one query per node over its past events."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from contig.layers.rows import Rows, dot, mix


class TemporalAttention(nn.Module):
    """Multi-head attention of a node over its last ``k`` events.

    ``q = W_Q x``, ``K = W_K z``, ``V = W_V z``, weights ``softmax(q K / sqrt(d_head))``. There is
    one query per node, so the projections of keys and values are folded onto the query side:
    ``q . (W_K z) = (W_K^T q) . z`` and ``sum a_j W_V z_j = W_V (sum a_j z_j)``. The neighbours
    themselves are never projected, and their parts (state, event features, time) are never
    concatenated. A node without past events attends to nothing and gets zeros.
    """

    def __init__(
        self, query_dim: int, key_dims: Sequence[int], *, inner: int, heads: int = 2, dropout: float = 0.0
    ) -> None:
        super().__init__()
        if inner % heads:
            raise ValueError(f"inner={inner} must be a multiple of heads={heads}")
        self.heads, self.inner, self.key_dims = heads, inner, tuple(key_dims)
        self.query = nn.Linear(query_dim, inner, bias=False)
        self.key = nn.Linear(sum(key_dims), inner, bias=False)
        self.value = nn.Linear(sum(key_dims), inner, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query: Tensor, keys: Sequence[Rows], mask: Tensor) -> Tensor:
        """``[q, query_dim]``, parts ``[q, k, part]`` of keys, mask ``[q, k]`` to ``[q, inner]``."""
        head = self.inner // self.heads
        asked = self.query(query).view(-1, self.heads, head).transpose(0, 1)  # [heads, q, head]
        folded = torch.bmm(asked, self._by_head(self.key)).split(self.key_dims, dim=2)
        parts = [(f, rows) for f, rows in zip(folded, keys, strict=True) if rows.width]
        logits = torch.stack([dot(f, rows, mask) for f, rows in parts]).sum(0) / math.sqrt(head)
        weights = self.weights(logits, mask)
        mixed = torch.cat([mix(weights, rows, mask) for _, rows in parts], dim=2)
        return torch.bmm(mixed, self._by_head(self.value).transpose(1, 2)).transpose(0, 1).flatten(1)

    def _by_head(self, layer: nn.Linear) -> Tensor:
        """A layer's weight as ``[heads, head, keys]``."""
        return layer.weight.view(self.heads, self.inner // self.heads, -1)

    def weights(self, logits: Tensor, mask: Tensor) -> Tensor:
        """Softmax over the events that exist; all zeros where there are none."""
        logits = logits.masked_fill(~mask, torch.finfo(logits.dtype).min)
        dropped: Tensor = self.dropout(torch.softmax(logits, dim=-1) * mask)
        return dropped
