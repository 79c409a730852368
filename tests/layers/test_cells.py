"""Recurrent cells on parts against torch's own on the concatenation."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.parts import ROWS, WIDTHS, check_same, random_parts
from torch import nn

from contig.layers import SplitGRUCell, SplitRNNCell

DIM = 7


@pytest.mark.parametrize(("split", "plain"), [(SplitGRUCell, nn.GRUCell), (SplitRNNCell, nn.RNNCell)])
def test_they_are_the_cells_of_torch(split: Any, plain: Any) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        ours, theirs, h = split(sum(WIDTHS), DIM), plain(sum(WIDTHS), DIM), torch.randn(ROWS, DIM)
    theirs.load_state_dict(ours.state_dict())
    parts = random_parts(1)
    check_same(ours, theirs, ours(parts, h), theirs(torch.cat(parts, dim=1), h), parts)


@pytest.mark.parametrize("rows", [0, 4])
def test_gradients_of_a_gru_by_finite_differences(rows: int) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(4)
        cell = SplitGRUCell(5, 3).double()
        inputs = [torch.randn(rows, width, dtype=torch.float64).requires_grad_() for width in (2, 3, 3)]
    leaves = (*inputs, *cell.parameters())
    assert torch.autograd.gradcheck(lambda a, b, h, *_: cell([a, b], h), leaves)
