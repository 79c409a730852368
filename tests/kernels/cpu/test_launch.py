"""Loops run on tensors: every item once, whatever the number of threads."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("numba")

from contig.kernels.cpu.gather import add_rows
from contig.kernels.cpu.launch import run_loop


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("min_items", [1, 4, 100])
def test_every_item_is_computed_once(min_items: int) -> None:
    rows = torch.arange(35.0).view(7, 5).t()  # not contiguous: read through a copy
    index, out = torch.tensor([2, 0, 2, 1, 2]), torch.ones(3, 7)
    expected = out.index_add(0, index, rows)
    run_loop(add_rows, (rows, index), (out,), items=7, min_items=min_items)
    assert torch.equal(out, expected)


def test_no_items() -> None:
    out = torch.ones(3, 0)
    run_loop(add_rows, (torch.ones(2, 0), torch.tensor([0, 2])), (out,), items=0, min_items=4)
    assert out.shape == (3, 0)


def test_results_cannot_be_lost_in_a_copy() -> None:
    with pytest.raises(ValueError, match="output is not contiguous"):
        run_loop(add_rows, (torch.ones(2, 3), torch.tensor([0, 1])), (torch.ones(3, 2).t(),), items=3)
