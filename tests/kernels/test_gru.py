"""The gates of a GRU against torch's own cell and finite differences."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import linear

from contig.kernels.cpu import gru as loops
from contig.kernels.gru import gru_update

ROWS, DIM, INPUT = 6, 7, 4

pytestmark = pytest.mark.usefixtures("implementation")


@pytest.mark.usefixtures("threads")
def test_the_update_is_that_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "MIN_ROWS", 2)
    draw = torch.Generator().manual_seed(3)
    x, h = (torch.randn(ROWS, width, generator=draw, dtype=torch.float64) for width in (INPUT, DIM))
    cell = torch.nn.GRUCell(INPUT, DIM).double()
    maps = linear(x, cell.weight_ih, cell.bias_ih), linear(h, cell.weight_hh, cell.bias_hh)
    found, expected = gru_update(*maps, h), cell(x, h)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    up = torch.linspace(-1, 1, found.numel()).double().view_as(found)
    grads, expected_grads = (torch.autograd.grad(y, list(cell.parameters()), up) for y in (found, expected))
    torch.testing.assert_close(grads, expected_grads, rtol=0, atol=1e-12)


@pytest.mark.parametrize("rows", [0, 4])
def test_gradients_by_finite_differences(rows: int) -> None:
    draw = torch.Generator().manual_seed(rows)
    inputs = [torch.randn(rows, width, generator=draw, dtype=torch.float64) for width in (9, 9, 3)]
    assert torch.autograd.gradcheck(gru_update, [x.requires_grad_() for x in inputs])
