"""Attention over rows in place, in loops and in torch, against one query at a time, gradients included."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from contig.layers import Rows, rows
from contig.layers.rows import attend

HEADS, QUERIES, K = 2, 5, 4
WIDTHS, TABLES = (7, 3), (6, 9)


@pytest.fixture(params=["loops", "torch"])
def route(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "torch":
        monkeypatch.setattr(rows, "HAS_NUMBA", False)


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest) -> object:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def problem(seed: int = 0) -> tuple[list[Tensor], list[Rows], Tensor]:
    """Two tables, some of whose rows are named several times, and a mask with holes and an empty query."""
    draw = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64).requires_grad_()

    asked = [random(HEADS, QUERIES, width) for width in WIDTHS]
    keys = [
        Rows(random(size, width), torch.randint(0, size, (QUERIES, K), generator=draw))
        for size, width in zip(TABLES, WIDTHS, strict=True)
    ]
    mask = torch.rand(QUERIES, K, generator=draw) < 0.7
    mask[1] = False
    return asked, keys, mask


def one_by_one(
    asked: list[Tensor], keys: list[Rows], mask: Tensor, keep: Tensor | None = None
) -> list[Tensor]:
    """Query by query and head by head, over the rows that count."""
    taken = [key.table[key.at] for key in keys]
    results = [torch.zeros(HEADS, QUERIES, key.width, dtype=torch.float64) for key in keys]
    for h in range(HEADS):
        for q in range(QUERIES):
            seen = [j for j in range(K) if mask[q, j]]
            if not seen:
                continue
            scores = torch.stack(
                [sum(a[h, q] @ z[q, j] for a, z in zip(asked, taken, strict=True)) for j in seen]
            )
            weights = torch.softmax(scores, dim=0)
            for part, z in enumerate(taken):
                for w, j in zip(weights, seen, strict=True):
                    share = w if keep is None else w * keep[h, q, j]
                    place = torch.zeros(HEADS, QUERIES, 1, dtype=torch.float64)
                    place[h, q] = 1
                    results[part] = results[part] + place * share * z[q, j]
    return results


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
    leaves = [*asked, *(key.table for key in keys)]
    ups = [torch.linspace(-1, 2, f.numel()).double().view_as(f) for f in found]
    ours = torch.autograd.grad(found, leaves, ups)
    theirs = torch.autograd.grad(expected, leaves, ups)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.usefixtures("route")
def test_a_table_without_a_gradient_gets_none() -> None:
    asked, keys, mask = problem(2)
    still = Rows(keys[1].table.detach(), keys[1].at)
    sum(x.sum() for x in attend(asked, [keys[0], still], mask)).backward()  # type: ignore[union-attr]
    assert keys[0].table.grad is not None
    assert keys[1].table.grad is None
    assert asked[1].grad is not None


def test_rows_that_are_there_already() -> None:
    taken = torch.randn(3, 4, 5)
    assert torch.equal(Rows.of(taken).taken(), taken)
    assert Rows.of(taken).width == 5
