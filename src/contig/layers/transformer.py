"""A transformer layer over short sequences."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from contig.errors import ConfigError
from contig.layers.mixer import perceptron

EXPANSION = 4  # hidden width of the perceptron over that of the tokens


class TransformerLayer(nn.Module):
    """Self-attention and a perceptron, each after a LayerNorm and with a residual connection.

    It is ``torch.nn.TransformerEncoderLayer`` with ``norm_first`` and GELU, but with the same operations in
    training and evaluation; torch's takes a path of its own where there are no gradients.
    """

    def __init__(self, dim: int, *, heads: int, dropout: float) -> None:
        super().__init__()
        if dim % heads:
            raise ConfigError(f"heads={heads} must divide the width of tokens, which is {dim}.")
        self.heads, self.dropout = heads, dropout
        self.norm = nn.LayerNorm(dim)
        self.inputs = nn.Linear(dim, 3 * dim)  # queries, keys and values
        self.outputs = nn.Sequential(nn.Linear(dim, dim), nn.Dropout(dropout))
        self.perceptron = perceptron(dim, EXPANSION * dim, dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Map sequences ``[n, tokens, dim]`` to sequences of the same shape."""
        parts = self.inputs(self.norm(x)).unflatten(2, (3, self.heads, -1))
        q, k, v = parts.permute(2, 0, 3, 1, 4)  # each [n, heads, tokens, dim / heads]
        dropout = self.dropout if self.training else 0.0
        attended = scaled_dot_product_attention(q, k, v, dropout_p=dropout).transpose(1, 2).flatten(2)
        x = x + self.outputs(attended)
        mixed: Tensor = x + self.perceptron(x)
        return mixed
