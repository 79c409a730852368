"""Linear maps and cells on parts against torch's own on the concatenation."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from contig.layers import GRUCell, PartedLinear, RNNCell, parted

WIDTHS, ROWS, OUT = (3, 4, 0, 2, 5), 6, 7
LEARNED = (False, False, True, True, False)  # which parts have a gradient


def parts(seed: int = 0) -> list[Tensor]:
    draw = torch.Generator().manual_seed(seed)
    drawn = [torch.randn(ROWS, width, generator=draw) for width in WIDTHS]
    return [part.requires_grad_(learned) for part, learned in zip(drawn, LEARNED, strict=True)]


def assert_alike(ours: Any, theirs: Any, found: Tensor, expected: Tensor, given: list[Tensor]) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    up = torch.linspace(-1, 1, found.numel()).view_as(found)
    asked = [part for part in given if part.requires_grad and part.numel()]
    a = torch.autograd.grad(found, [*ours.parameters(), *asked], up)
    b = torch.autograd.grad(expected, [*theirs.parameters(), *asked], up)
    torch.testing.assert_close(a, b, rtol=0, atol=1e-5)


@pytest.fixture(autouse=True)
def _seeded() -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        yield


def test_the_map_is_the_map_of_the_whole() -> None:
    ours, theirs, given = PartedLinear(sum(WIDTHS), OUT), nn.Linear(sum(WIDTHS), OUT), parts()
    theirs.load_state_dict(ours.state_dict())
    assert_alike(ours, theirs, ours(*given), theirs(torch.cat(given, dim=1)), given)


@pytest.mark.parametrize(("own", "torchs"), [(GRUCell, nn.GRUCell), (RNNCell, nn.RNNCell)])
def test_the_cells_are_those_of_torch(own: Any, torchs: Any) -> None:
    ours, theirs, given = own(sum(WIDTHS), OUT), torchs(sum(WIDTHS), OUT), parts(1)
    theirs.load_state_dict(ours.state_dict())
    h = torch.randn(ROWS, OUT)
    assert_alike(ours, theirs, ours(given, h), theirs(torch.cat(given, dim=1), h), given)


@pytest.mark.parametrize("rows", [0, 4])
def test_gradients_of_the_gates_by_finite_differences(rows: int) -> None:
    cell = GRUCell(5, 3).double()
    given = [torch.randn(rows, width, dtype=torch.float64).requires_grad_() for width in (2, 3, 3)]
    leaves = (*given, *cell.parameters())
    assert torch.autograd.gradcheck(lambda a, b, h, *_: cell([a, b], h), leaves)


def test_both_ways_through_the_gates_are_one() -> None:
    given = [torch.randn(ROWS, width).requires_grad_() for width in (3 * OUT, 3 * OUT, OUT)]
    found, expected = parted._Gates.apply(*given), parted._gated(*given)
    up = torch.linspace(-1, 1, found.numel()).view_as(found)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    ours, theirs = (torch.autograd.grad(x, given, up) for x in (found, expected))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)
