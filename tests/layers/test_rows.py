"""Rows taken where they are used against rows taken first, in loops and in torch, gradients included."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from contig.layers import Rows, rows
from contig.layers.rows import dot, mix

HEADS, QUERIES, K, WIDTH, TABLE = 2, 5, 4, 7, 6


@pytest.fixture(params=["loops", "torch"])
def route(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "torch":
        monkeypatch.setattr(rows, "_in_loops", lambda x: False)


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest) -> object:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def problem(seed: int = 0) -> tuple[Tensor, Tensor, Rows, Tensor]:
    """What is asked, weights, rows that name some of the table several times, and a mask with holes."""
    draw = torch.Generator().manual_seed(seed)
    asked = torch.randn(HEADS, QUERIES, WIDTH, generator=draw, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(HEADS, QUERIES, K, generator=draw, dtype=torch.float64, requires_grad=True)
    table = torch.randn(TABLE, WIDTH, generator=draw, dtype=torch.float64, requires_grad=True)
    at = torch.randint(0, TABLE, (QUERIES, K), generator=draw)
    mask = torch.rand(QUERIES, K, generator=draw) < 0.7
    mask[1] = False
    return asked, weights, Rows(table, at), mask


def one_by_one(
    term: Callable[[int, int, int], Tensor], mask: Tensor, zero: Tensor
) -> list[list[list[Tensor]]]:
    return [
        [[term(h, q, j) if mask[q, j] else zero for j in range(K)] for q in range(QUERIES)]
        for h in range(HEADS)
    ]


@pytest.mark.usefixtures("route", "threads")
def test_dot_against_one_product_at_a_time() -> None:
    asked, _, (table, at), mask = problem()
    terms = one_by_one(lambda h, q, j: asked[h, q] @ table[at[q, j]], mask, torch.zeros(()).double())
    expected = torch.stack([torch.stack([torch.stack(row) for row in head]) for head in terms])
    found = dot(asked, Rows(table, at), mask)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    weigh = torch.linspace(-1, 2, found.numel()).double().view_as(found)
    ours = torch.autograd.grad((found * weigh).sum(), (asked, table))
    theirs = torch.autograd.grad((expected * weigh).sum(), (asked, table))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.usefixtures("route", "threads")
def test_mix_against_one_row_at_a_time() -> None:
    _, weights, (table, at), mask = problem(1)
    terms = one_by_one(lambda h, q, j: weights[h, q, j] * table[at[q, j]], mask, torch.zeros(WIDTH).double())
    expected = torch.stack([torch.stack([torch.stack(row).sum(0) for row in head]) for head in terms])
    found = mix(weights, Rows(table, at), mask)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    weigh = torch.linspace(-1, 2, found.numel()).double().view_as(found)
    ours = torch.autograd.grad((found * weigh).sum(), (weights, table))
    theirs = torch.autograd.grad((expected * weigh).sum(), (weights, table))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.usefixtures("route")
def test_a_table_without_a_gradient_gets_none() -> None:
    asked, _, (table, at), mask = problem(2)
    dot(asked, Rows(table.detach(), at), mask).sum().backward()
    assert table.grad is None
    assert asked.grad is not None


def test_rows_that_are_there_already() -> None:
    taken = torch.randn(3, 4, 5)
    assert torch.equal(Rows.of(taken).taken(), taken)
    assert Rows.of(taken).width == 5
