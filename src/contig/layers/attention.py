"""Attention of one query per node over its past events."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn


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

    def forward(self, query: Tensor, keys: Sequence[Tensor], mask: Tensor) -> Tensor:
        """``[q, query_dim]``, parts ``[q, k, part]``, mask ``[q, k]`` to ``[q, inner]``."""
        head = self.inner // self.heads
        asked = self.query(query).view(-1, self.heads, head)
        key_weight = self.key.weight.view(self.heads, head, -1)
        folded = torch.einsum("qhd,hdz->qhz", asked, key_weight).split(self.key_dims, dim=-1)
        parts = zip(folded, keys, strict=True)
        logits = torch.stack([torch.einsum("qhz,qkz->qhk", f, z) for f, z in parts]).sum(0) / math.sqrt(head)
        weights = self.weights(logits, mask)
        mixed = torch.cat([torch.einsum("qhk,qkz->qhz", weights, z) for z in keys], dim=-1)
        value_weight = self.value.weight.view(self.heads, head, -1)
        return torch.einsum("qhz,hdz->qhd", mixed, value_weight).flatten(1)

    def weights(self, logits: Tensor, mask: Tensor) -> Tensor:
        """Softmax over the events that exist; all zeros where there are none."""
        seen = mask.unsqueeze(1)
        logits = logits.masked_fill(~seen, torch.finfo(logits.dtype).min)
        dropped: Tensor = self.dropout(torch.softmax(logits, dim=-1) * seen)
        return dropped
