"""Decoders that turn embeddings into scores."""

from __future__ import annotations

import torch
from torch import Tensor, nn

# largest [rows, m, hidden] computed at once: what fits into a core's cache, and half a gigabyte
CPU_CHUNK, GPU_CHUNK = 2**20, 2**27


class PairDecoder(nn.Module):
    """A two-layer perceptron that maps a pair of embeddings to the logit of a link.

    The first layer is split into a source part and a destination part, so that ranking many
    destinations computes each part once per node instead of once per pair.
    """

    def __init__(self, dim: int, hidden: int | None = None) -> None:
        super().__init__()
        hidden = hidden or dim
        self.from_src = nn.Linear(dim, hidden)
        self.from_dst = nn.Linear(dim, hidden, bias=False)
        self.out = nn.Linear(hidden, 1)

    def forward(self, src: Tensor, dst: Tensor) -> Tensor:
        """Map embeddings ``[..., d]`` of both ends to logits ``[...]``."""
        return self.join(self.from_src(src), self.from_dst(dst))

    def join(self, src_part: Tensor, dst_part: Tensor) -> Tensor:
        """Apply the second layer to the two parts of the first."""
        logit: Tensor = self.out(torch.relu(src_part + dst_part))
        return logit.squeeze(-1)

    def all_pairs(self, src: Tensor, dst: Tensor) -> Tensor:
        """Map embeddings ``[n, d]`` and ``[m, d]`` to logits ``[n, m]``, in chunks that bound memory."""
        src_part, dst_part = self.from_src(src), self.from_dst(dst)
        rows = max(1, (GPU_CHUNK if src.is_cuda else CPU_CHUNK) // max(dst_part.numel(), 1))
        return torch.cat([self.join(chunk.unsqueeze(1), dst_part) for chunk in src_part.split(rows)])


class NodeDecoder(nn.Module):
    """A three-layer perceptron that maps an embedding to the logit of a label."""

    def __init__(self, dim: int, hidden: tuple[int, int] = (80, 10), dropout: float = 0.1) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(dim, hidden[0]),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden[0], hidden[1]),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden[1], 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map embeddings ``[n, d]`` to logits ``[n]``."""
        logit: Tensor = self.layers(x)
        return logit.squeeze(-1)
