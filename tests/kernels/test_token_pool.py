"""Pooled tokens of pairs against one pair and one token at a time."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import gelu

from contig.kernels.dispatch import disabled
from contig.kernels.token_pool import OwnTokens, pool, pool_related

WIDTH, SLOTS, FEATURES = 13, 5, 7


def one_by_one(hidden: Tensor, count: list[int], related: Tensor, weight: Tensor, side: int) -> Tensor:
    a, b = related.shape[:2]
    out = torch.zeros(a, b, 3 * WIDTH)
    for i in range(a):
        for j in range(b):
            node = (i, j)[side]
            tokens = [gelu(hidden[node, t] + weight @ related[i, j, t]) for t in range(count[node])]
            if tokens:
                padding = [torch.zeros(WIDTH)] if len(tokens) < SLOTS else []
                mean = torch.stack(tokens).sum(0) / len(tokens)
                out[i, j] = torch.cat([mean, torch.stack(tokens + padding).amax(0), tokens[0]])
    return out


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("side", [0, 1])
def test_pairs_are_pooled_one_by_one(side: int, compiled: bool) -> None:
    """Nodes with no token, some and all; tokens that relate to the other node and not; large values."""
    draw = torch.Generator().manual_seed(side)
    count = [0, 2, 5, 1, 4, 3] if side == 0 else [3, 0, 5, 1]
    mask = torch.arange(SLOTS) < torch.tensor(count).unsqueeze(1)
    hidden = 2 * torch.randn(len(count), SLOTS, WIDTH, generator=draw)
    related = 3 * torch.randn(6, 4, SLOTS, FEATURES, generator=draw)
    related *= torch.rand(6, 4, SLOTS, 1, generator=draw) < 0.4
    related *= torch.rand(6, 4, SLOTS, FEATURES, generator=draw) < 0.5
    related[0, 0, 0], related[3, 2, 0] = 20.0, -20.0
    related *= mask[:, None, :, None] if side == 0 else mask[None, :, :, None]
    weight = torch.randn(WIDTH, FEATURES, generator=draw)
    own = OwnTokens.of(hidden, mask)
    expected = one_by_one(hidden, count, related, weight, side)
    if compiled:
        found = pool_related(own, related, weight, side)
    else:
        with disabled():
            found = pool_related(own, related, weight, side)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=2e-6)


def test_tokens_that_are_not_numbers_raise_no_error() -> None:
    """They do not change the gradients of others; a training says itself that its loss became NaN."""
    given = torch.randn(2, SLOTS, WIDTH, generator=torch.Generator().manual_seed(0))
    given[1] = torch.nan
    mask = torch.ones(2, SLOTS, dtype=torch.bool)
    compiled, plain = given.clone().requires_grad_(), given.clone().requires_grad_()
    pooled = pool(compiled, mask)
    pooled.sum().backward()
    with disabled():
        pool(plain, mask).sum().backward()
    assert pooled[1].isnan().any()
    assert compiled.grad is not None
    assert plain.grad is not None
    torch.testing.assert_close(compiled.grad[0], plain.grad[0])
