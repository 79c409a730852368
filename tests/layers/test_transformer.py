"""The transformer layer against torch's own."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from contig.errors import ConfigError
from contig.layers import TransformerLayer


@pytest.mark.parametrize("heads", [1, 3])
@torch.no_grad()
def test_against_torch(heads: int) -> None:
    torch.manual_seed(heads)
    layer = TransformerLayer(6, heads=heads, dropout=0.3).eval()
    twin = nn.TransformerEncoderLayer(
        6, heads, dim_feedforward=24, activation="gelu", batch_first=True, norm_first=True
    ).eval()
    for parameter in layer.parameters():
        parameter.copy_(torch.randn_like(parameter))
    norm, first, _, _, second, _ = layer.perceptron
    parts = {
        "self_attn.in_proj_": layer.inputs,
        "self_attn.out_proj.": layer.outputs[0],
        "norm1.": layer.norm,
        "norm2.": norm,
        "linear1.": first,
        "linear2.": second,
    }
    twin.load_state_dict(
        {f"{name}{kind}": getattr(x, kind) for name, x in parts.items() for kind in ("weight", "bias")}
    )
    x = torch.randn(4, 5, 6)
    torch.testing.assert_close(layer(x), twin(x), rtol=1e-4, atol=1e-4)


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(ConfigError, match=r"^heads=4 must divide the width of tokens, which is 6"):
        TransformerLayer(6, heads=4, dropout=0.0)
