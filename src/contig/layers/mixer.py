"""MLP-mixers: perceptrons that mix the tokens of a sequence, then the channels of each token."""

from __future__ import annotations

from torch import Tensor, nn

CHANNEL_EXPANSION = 4  # hidden width over channels; over tokens it is half of their number


class MixerLayer(nn.Module):
    """A layer of an MLP-mixer (Tolstikhin et al., 2021) for sequences of a fixed length.

    ``X <- X + F(X^T)^T`` over tokens, then ``X <- X + G(X)`` over channels, where ``F`` and ``G`` are a
    LayerNorm and a two-layer perceptron. Hidden widths are those of GraphMixer.
    """

    def __init__(self, tokens: int, dim: int, *, dropout: float) -> None:
        super().__init__()
        self.across_tokens = perceptron(tokens, max(1, tokens // 2), dropout)
        self.across_channels = perceptron(dim, CHANNEL_EXPANSION * dim, dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Map sequences ``[n, tokens, dim]`` to sequences of the same shape."""
        x = x + self.across_tokens(x.transpose(1, 2)).transpose(1, 2)
        mixed: Tensor = x + self.across_channels(x)
        return mixed


def perceptron(width: int, hidden: int, dropout: float) -> nn.Sequential:
    """Return a LayerNorm and a two-layer perceptron with GELU and dropout."""
    return nn.Sequential(
        nn.LayerNorm(width),
        nn.Linear(width, hidden),
        nn.GELU(),
        nn.Dropout(dropout),
        nn.Linear(hidden, width),
        nn.Dropout(dropout),
    )
