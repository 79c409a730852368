"""The mixer against loops over single numbers."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from contig.layers import MixerLayer

Vector = list[float]


def plain(x: Vector, stack: nn.Sequential) -> Vector:
    """A LayerNorm and a two-layer perceptron of one vector, in plain Python."""
    norm, first, _, _, second, _ = stack
    mean = sum(x) / len(x)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in x) / len(x) + norm.eps)
    scale, shift = norm.weight.tolist(), norm.bias.tolist()
    scaled = [(value - mean) / deviation * a + b for value, a, b in zip(x, scale, shift, strict=True)]
    hidden = [value * 0.5 * (1 + math.erf(value / math.sqrt(2))) for value in linear(scaled, first)]
    return linear(hidden, second)


def linear(x: Vector, layer: nn.Module) -> Vector:
    weight, bias = layer.weight.tolist(), layer.bias.tolist()  # type: ignore[operator, union-attr]
    return [
        sum(w * value for w, value in zip(row, x, strict=True)) + b
        for row, b in zip(weight, bias, strict=True)
    ]


@pytest.mark.parametrize("tokens", [1, 5])
@torch.no_grad()
def test_tokens_are_mixed_before_channels(tokens: int) -> None:
    torch.manual_seed(0)
    layer = MixerLayer(tokens, 3, dropout=0.4).eval()
    for parameter in layer.parameters():
        parameter.copy_(torch.randn_like(parameter))
    x = torch.randn(2, tokens, 3)
    expected = []
    for rows in x.tolist():
        columns = [list(column) for column in zip(*rows, strict=True)]
        mixed = [plain(column, layer.across_tokens) for column in columns]
        rows = [[rows[i][c] + mixed[c][i] for c in range(3)] for i in range(tokens)]
        expected.append(
            [[a + b for a, b in zip(row, plain(row, layer.across_channels), strict=True)] for row in rows]
        )
    torch.testing.assert_close(layer(x), torch.tensor(expected), rtol=1e-4, atol=1e-4)
