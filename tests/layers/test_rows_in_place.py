"""Attention over rows in place, in loops and in torch, against one query at a time, gradients included."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from contig.kernels import dispatch
from contig.layers import Rows
from contig.layers.rows import attend, take

HEADS, QUERIES, K = 2, 5, 4
WIDTHS, TABLES = (7, 3), (6, 9)


@pytest.fixture(params=["loops", "torch"])
def route(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "torch":
        monkeypatch.setattr(dispatch, "_enabled", False)


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest) -> object:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def problem(seed: int = 0) -> tuple[Tensor, list[Rows], Tensor]:
    """Two tables, some of whose rows are named several times, and a mask with holes and an empty query."""
    draw = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64).requires_grad_()

    asked = random(HEADS, QUERIES, sum(WIDTHS))
    keys = [
        Rows(random(size, width), torch.randint(0, size, (QUERIES, K), generator=draw))
        for size, width in zip(TABLES, WIDTHS, strict=True)
    ]
    mask = torch.rand(QUERIES, K, generator=draw) < 0.7
    mask[1] = False
    return asked, keys, mask


def one_by_one(asked: Tensor, keys: list[Rows], mask: Tensor, keep: Tensor | None = None) -> Tensor:
    """Query by query and head by head, over the rows that count."""
    taken = torch.cat([key.table[key.at] for key in keys], dim=2)
    result = torch.zeros(HEADS, QUERIES, sum(WIDTHS), dtype=torch.float64)
    for h in range(HEADS):
        for q in range(QUERIES):
            seen = [j for j in range(K) if mask[q, j]]
            if not seen:
                continue
            weights = torch.softmax(torch.stack([asked[h, q] @ taken[q, j] for j in seen]), dim=0)
            for w, j in zip(weights, seen, strict=True):
                share = w if keep is None else w * keep[h, q, j]
                place = torch.zeros(HEADS, QUERIES, 1, dtype=torch.float64)
                place[h, q] = 1
                result = result + place * share * taken[q, j]
    return result


@pytest.mark.usefixtures("route", "threads")
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_attention_against_one_query_at_a_time(dropout: float) -> None:
    asked, keys, mask = problem()
    with torch.random.fork_rng():
        torch.manual_seed(5)
        found = attend(asked, keys, mask, dropout)
        torch.manual_seed(5)
        keep = torch.empty(HEADS, QUERIES, K, dtype=torch.float64).bernoulli_(1 - dropout) / (1 - dropout)
    expected = one_by_one(asked, keys, mask, keep if dropout else None)
    leaves = [asked, *(key.table for key in keys)]
    up = torch.linspace(-1, 2, found.numel()).double().view_as(found)
    ours = torch.autograd.grad(found, leaves, up)
    theirs = torch.autograd.grad(expected, leaves, up)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.usefixtures("route")
def test_a_table_without_a_gradient_gets_none() -> None:
    asked, keys, mask = problem(2)
    still = Rows(keys[1].table.detach(), keys[1].at)
    attend(asked, [keys[0], still], mask).sum().backward()
    assert keys[0].table.grad is not None
    assert keys[1].table.grad is None
    assert asked.grad is not None


@pytest.mark.usefixtures("route", "threads")
def test_gradients_by_finite_differences() -> None:
    asked, keys, mask = problem(3)
    places = [key.at for key in keys]

    def found(asked: Tensor, *tables: Tensor) -> Tensor:
        return attend(asked, [Rows(table, at) for table, at in zip(tables, places, strict=True)], mask)

    assert torch.autograd.gradcheck(found, (asked, *(key.table for key in keys)))


@pytest.mark.usefixtures("route")
def test_tables_and_queries_may_lie_in_memory_in_any_order() -> None:
    asked, keys, mask = problem(7)
    aside = [key.table.detach().t().contiguous().requires_grad_() for key in keys]
    turned = [Rows(table.t(), key.at) for table, key in zip(aside, keys, strict=True)]
    across = asked.detach().transpose(0, 2).contiguous().requires_grad_()
    found, expected = attend(across.transpose(0, 2), turned, mask), one_by_one(asked, keys, mask)
    up = torch.linspace(-1, 2, found.numel()).double().view(found.shape[::-1]).permute(2, 1, 0)
    ours = torch.autograd.grad(found, [across, *aside], up)
    theirs = torch.autograd.grad(expected, [asked, *(key.table for key in keys)], up)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(
        [ours[0].transpose(0, 2), *(x.t() for x in ours[1:])], list(theirs), rtol=0, atol=1e-12
    )


@pytest.mark.usefixtures("route")
def test_where_nothing_counts_nothing_comes_and_goes() -> None:
    asked, keys, mask = problem(4)
    found = attend(asked, keys, torch.zeros_like(mask))
    assert torch.equal(found, torch.zeros_like(found))
    for grad in torch.autograd.grad(found, [asked, *(key.table for key in keys)], torch.ones_like(found)):
        assert torch.equal(grad, torch.zeros_like(grad))


@pytest.mark.usefixtures("route", "threads")
def test_no_queries_at_all() -> None:
    asked, keys, mask = problem(5)
    found = attend(asked[:, :0], [Rows(key.table, key.at[:0]) for key in keys], mask[:0])
    assert found.shape == (HEADS, 0, sum(WIDTHS))
    found.sum().backward()
    assert torch.equal(keys[0].table.grad, torch.zeros(TABLES[0], WIDTHS[0], dtype=torch.float64))


@pytest.mark.usefixtures("route")
def test_only_the_differences_of_large_products_count() -> None:
    """Products of a thousand, whose exponentials are no numbers any more."""
    asked, keys, mask = problem(6)
    found = attend(1000 * asked, keys, mask)
    torch.testing.assert_close(found, one_by_one(1000 * asked, keys, mask), rtol=0, atol=1e-12)


@pytest.mark.usefixtures("route", "threads")
@pytest.mark.parametrize("at", [[4, 0, 4, 4, 2], [], [5]], ids=str)
def test_rows_taken_and_their_gradient(at: list[int]) -> None:
    table = torch.randn(
        6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1)
    ).requires_grad_()
    places = torch.tensor(at, dtype=torch.int64)
    found, up = take(table, places), torch.arange(3.0 * len(at)).double().view(len(at), 3) + 1
    assert [row.tolist() for row in found] == [table[i].tolist() for i in at]
    (ours,) = torch.autograd.grad(found, table, up)
    expected = [
        sum((up[n] for n, i in enumerate(at) if i == row), torch.zeros(3)).tolist() for row in range(6)
    ]
    assert ours.tolist() == expected


def test_rows_that_are_there_already() -> None:
    taken = torch.randn(3, 4, 5)
    assert torch.equal(Rows.of(taken).taken(), taken)
    assert Rows.of(taken).width == 5
