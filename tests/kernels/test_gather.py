"""Gathering rows, and the gradient of a row that is gathered several times."""

from __future__ import annotations

import pytest
import torch

from contig.kernels.gather import LazyRows, gather_rows


@pytest.mark.usefixtures("implementation", "threads")
@pytest.mark.parametrize("index", [[4, 0, 4, 4, 2], [], [5]], ids=str)
def test_gathered_rows_and_their_gradient(index: list[int]) -> None:
    draw = torch.Generator().manual_seed(1)
    table = torch.randn(6, 3, dtype=torch.float64, generator=draw).requires_grad_()
    found = gather_rows(table, torch.tensor(index, dtype=torch.int64))
    up = torch.arange(3.0 * len(index)).double().view(len(index), 3) + 1
    assert [row.tolist() for row in found] == [table[i].tolist() for i in index]
    (grad,) = torch.autograd.grad(found, table, up)
    expected = [
        sum((up[n] for n, i in enumerate(index) if i == row), torch.zeros(3)).tolist() for row in range(6)
    ]
    assert grad.tolist() == expected


def test_lazy_rows_gather_what_they_index() -> None:
    table, indices = torch.arange(12.0).view(4, 3), torch.tensor([[3, 0], [1, 1], [2, 3], [0, 0], [3, 3]])
    rows = LazyRows(table, indices)
    assert rows.width == 3
    assert rows.gather().tolist() == [[table[i].tolist() for i in pair] for pair in indices.tolist()]


def test_rows_that_exist_already_can_be_wrapped() -> None:
    rows = torch.randn(3, 4, 5)
    assert torch.equal(LazyRows.of(rows).gather(), rows)
    assert LazyRows.of(rows).width == 5
