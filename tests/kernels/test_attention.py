"""Attention over rows of tables against one query at a time, gradients included."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from contig.kernels.attention import attend
from contig.kernels.gather import LazyRows

HEADS, QUERIES, K = 2, 5, 4
WIDTHS, TABLES = (7, 3), (6, 9)

pytestmark = pytest.mark.usefixtures("implementation")


def problem(seed: int = 0) -> tuple[Tensor, list[LazyRows], Tensor]:
    """Two tables, some of whose rows occur several times, and a mask with gaps and an empty query."""
    draw = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64).requires_grad_()

    queries = random(HEADS, QUERIES, sum(WIDTHS))
    keys = [
        LazyRows(random(size, width), torch.randint(0, size, (QUERIES, K), generator=draw))
        for size, width in zip(TABLES, WIDTHS, strict=True)
    ]
    mask = torch.rand(QUERIES, K, generator=draw) < 0.7
    mask[1] = False
    return queries, keys, mask


def one_by_one(queries: Tensor, keys: list[LazyRows], mask: Tensor, keep: Tensor | None = None) -> Tensor:
    """Attend query by query and head by head, over the keys that count."""
    gathered = torch.cat([key.table[key.indices] for key in keys], dim=2)
    result = torch.zeros(HEADS, QUERIES, sum(WIDTHS), dtype=torch.float64)
    for h in range(HEADS):
        for q in range(QUERIES):
            counted = [j for j in range(K) if mask[q, j]]
            if not counted:
                continue
            logits = torch.stack([queries[h, q] @ gathered[q, j] for j in counted])
            for weight, j in zip(torch.softmax(logits, dim=0), counted, strict=True):
                factor = weight if keep is None else weight * keep[h, q, j]
                place = torch.zeros(HEADS, QUERIES, 1, dtype=torch.float64)
                place[h, q] = 1
                result = result + place * factor * gathered[q, j]
    return result


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_attention_equals_one_query_at_a_time(dropout: float) -> None:
    queries, keys, mask = problem()
    with torch.random.fork_rng():
        torch.manual_seed(5)
        found = attend(queries, keys, mask, dropout)
        torch.manual_seed(5)
        keep = torch.empty(HEADS, QUERIES, K, dtype=torch.float64).bernoulli_(1 - dropout) / (1 - dropout)
    expected = one_by_one(queries, keys, mask, keep if dropout else None)
    leaves = [queries, *(key.table for key in keys)]
    up = torch.linspace(-1, 2, found.numel()).double().view_as(found)
    grads, expected_grads = (torch.autograd.grad(x, leaves, up) for x in (found, expected))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(grads, expected_grads, rtol=0, atol=1e-12)


def test_a_table_that_needs_no_gradient_gets_none() -> None:
    queries, keys, mask = problem(2)
    constant = LazyRows(keys[1].table.detach(), keys[1].indices)
    attend(queries, [keys[0], constant], mask).sum().backward()
    assert keys[0].table.grad is not None
    assert keys[1].table.grad is None
    assert queries.grad is not None


@pytest.mark.usefixtures("threads")
def test_gradients_by_finite_differences() -> None:
    queries, keys, mask = problem(3)
    indices = [key.indices for key in keys]

    def attended(queries: Tensor, *tables: Tensor) -> Tensor:
        return attend(queries, [LazyRows(table, at) for table, at in zip(tables, indices, strict=True)], mask)

    assert torch.autograd.gradcheck(attended, (queries, *(key.table for key in keys)))


def test_tables_and_queries_may_have_any_strides() -> None:
    queries, keys, mask = problem(7)
    transposed = [key.table.detach().t().contiguous().requires_grad_() for key in keys]
    strided = [LazyRows(table.t(), key.indices) for table, key in zip(transposed, keys, strict=True)]
    permuted = queries.detach().transpose(0, 2).contiguous().requires_grad_()
    found, expected = attend(permuted.transpose(0, 2), strided, mask), one_by_one(queries, keys, mask)
    up = torch.linspace(-1, 2, found.numel()).double().view(found.shape[::-1]).permute(2, 1, 0)
    grads = torch.autograd.grad(found, [permuted, *transposed], up)
    expected_grads = torch.autograd.grad(expected, [queries, *(key.table for key in keys)], up)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(
        [grads[0].transpose(0, 2), *(x.t() for x in grads[1:])], list(expected_grads), rtol=0, atol=1e-12
    )


def test_results_and_gradients_are_zero_where_everything_is_masked() -> None:
    queries, keys, mask = problem(4)
    found = attend(queries, keys, torch.zeros_like(mask))
    assert torch.equal(found, torch.zeros_like(found))
    for grad in torch.autograd.grad(found, [queries, *(key.table for key in keys)], torch.ones_like(found)):
        assert torch.equal(grad, torch.zeros_like(grad))


@pytest.mark.usefixtures("threads")
def test_no_queries() -> None:
    queries, keys, mask = problem(5)
    found = attend(queries[:, :0], [LazyRows(key.table, key.indices[:0]) for key in keys], mask[:0])
    assert found.shape == (HEADS, 0, sum(WIDTHS))
    found.sum().backward()
    assert torch.equal(keys[0].table.grad, torch.zeros(TABLES[0], WIDTHS[0], dtype=torch.float64))


def test_only_differences_of_large_logits_matter() -> None:
    """Logits of a thousand, whose exponentials overflow."""
    queries, keys, mask = problem(6)
    found = attend(1000 * queries, keys, mask)
    torch.testing.assert_close(found, one_by_one(1000 * queries, keys, mask), rtol=0, atol=1e-12)
