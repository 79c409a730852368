"""Inputs in parts, some of which need gradients, and the comparison with torch's own modules."""

from __future__ import annotations

import torch
from torch import Tensor, nn

ROWS, WIDTHS = 6, (3, 4, 0, 2, 5)
NEED_GRADIENTS = (False, False, True, True, False)


def random_parts(seed: int) -> list[Tensor]:
    draw = torch.Generator().manual_seed(seed)
    parts = [torch.randn(ROWS, width, generator=draw) for width in WIDTHS]
    return [part.requires_grad_(needs) for part, needs in zip(parts, NEED_GRADIENTS, strict=True)]


def check_same(
    ours: nn.Module, theirs: nn.Module, found: Tensor, expected: Tensor, parts: list[Tensor]
) -> None:
    """Compare results, and the gradients of all weights and parts."""
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    up = torch.linspace(-1, 1, found.numel()).view_as(found)
    leaves = [part for part in parts if part.requires_grad and part.numel()]
    grads = torch.autograd.grad(found, [*ours.parameters(), *leaves], up)
    expected_grads = torch.autograd.grad(expected, [*theirs.parameters(), *leaves], up)
    torch.testing.assert_close(grads, expected_grads, rtol=0, atol=1e-5)
