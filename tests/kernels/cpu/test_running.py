"""Loops run on tensors: every item once, however it is shared."""

from __future__ import annotations

import pytest
import torch

from contig.kernels.cpu.running import run

pytest.importorskip("numba")


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("least", [1, 4, 100])
def test_every_item_is_done_once_by_any_number_of_threads(threads: int, least: int) -> None:
    given = torch.arange(35.0).view(7, 5).t()  # not contiguous: read through a copy
    at, out = torch.tensor([2, 0, 2, 1, 2]), torch.ones(3, 7)
    expected = out.index_add(0, at, given)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        run("add_rows", given, at, out, over=7, least=least)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(out, expected)


def test_nothing_to_do() -> None:
    out = torch.ones(3, 0)
    run("add_rows", torch.ones(2, 0), torch.tensor([0, 2]), out, over=0, least=4)
    assert out.shape == (3, 0)
