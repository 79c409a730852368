"""The folded attention against a plain one, and what must not influence it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from contig.kernels.gather import LazyRows
from contig.layers import TemporalAttention

QUERIES, K, QUERY_DIM, OWN = 5, 4, 7, 3
HEADS, INNER = 3, 12


def parts(key_dims: tuple[int, ...], seed: int = 0) -> tuple[Tensor, list[Tensor], Tensor]:
    """Return queries, the parts of their keys, and a mask in which query 2 has no events."""
    draw = torch.Generator().manual_seed(seed)
    query = torch.randn(QUERIES, QUERY_DIM, generator=draw)
    keys = [torch.randn(QUERIES, K, d, generator=draw) for d in key_dims]
    count = torch.tensor([4, 1, 0, 3, 2])
    return query, keys, torch.arange(K) < count.unsqueeze(1)


def attention(key_dims: tuple[int, ...], heads: int = HEADS, dropout: float = 0.0) -> TemporalAttention:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return TemporalAttention(QUERY_DIM, key_dims, inner=INNER, heads=heads, dropout=dropout)


def attend(layer: TemporalAttention, query: Tensor, keys: Sequence[Tensor], mask: Tensor) -> Tensor:
    """Apply the layer to keys from tables that hold their rows twice and in random order."""
    tables = []
    for key in keys:
        order = torch.randperm(2 * QUERIES * K, generator=torch.Generator().manual_seed(3))
        table = torch.cat([key.flatten(0, 1)] * 2)[order]
        tables.append(LazyRows(table, order.argsort()[QUERIES * K :].view(QUERIES, K)))
    attended: Tensor = layer(query[:, :OWN], query[:, OWN:], tables, mask)
    return attended


def plain(layer: TemporalAttention, query: Tensor, keys: list[Tensor], mask: Tensor) -> Tensor:
    """Project every key and value, query by query and head by head."""
    z, width = torch.cat(keys, dim=-1), layer.inner // layer.heads
    rows = []
    for i in range(len(query)):
        q, key, value = layer.query(query[i]), layer.key(z[i]), layer.value(z[i])
        heads = []
        for h in range(layer.heads):
            part = slice(h * width, (h + 1) * width)
            seen = [j for j in range(K) if mask[i, j]]
            scores = [float(q[part] @ key[j, part]) / math.sqrt(width) for j in seen]
            top = max(scores, default=0.0)
            weight = [math.exp(s - top) for s in scores]
            mixed = torch.zeros(width)
            for w, j in zip(weight, seen, strict=True):
                mixed = mixed + w / sum(weight) * value[j, part]
            heads.append(mixed)
        rows.append(torch.cat(heads))
    return torch.stack(rows)


@pytest.mark.parametrize("key_dims", [(6, 3, 4), (6, 0, 4), (5,)], ids=str)
@pytest.mark.parametrize("heads", [1, 2, 3])
@torch.no_grad()
def test_folded_equals_plain(key_dims: tuple[int, ...], heads: int) -> None:
    layer = attention(key_dims, heads)
    query, keys, mask = parts(key_dims)
    torch.testing.assert_close(
        attend(layer, query, keys, mask), plain(layer, query, keys, mask), rtol=0, atol=1e-6
    )


@torch.no_grad()
def test_folded_equals_the_attention_of_torch() -> None:
    layer = attention((6, 3, 4))
    query, keys, mask = parts((6, 3, 4))
    z, some = torch.cat(keys, dim=-1), mask.any(dim=1)
    split = (INNER // HEADS,)
    q = layer.query(query).view(QUERIES, 1, HEADS, *split).transpose(1, 2)
    key, value = (w(z).view(QUERIES, K, HEADS, *split).transpose(1, 2) for w in (layer.key, layer.value))
    theirs = functional.scaled_dot_product_attention(q, key, value, attn_mask=mask[:, None, None, :])
    found = attend(layer, query, keys, mask)
    torch.testing.assert_close(found[some], theirs.squeeze(2).flatten(1)[some], rtol=0, atol=1e-6)


@torch.no_grad()
def test_the_shared_part_of_queries_may_be_a_single_row() -> None:
    layer = attention((6, 3, 4))
    query, keys, mask = parts((6, 3, 4))
    query[:, OWN:] = query[:1, OWN:]
    tables = [LazyRows.of(key) for key in keys]
    found = layer(query[:, :OWN], query[:1, OWN:], tables, mask)
    torch.testing.assert_close(found, plain(layer, query, keys, mask), rtol=0, atol=1e-6)


@torch.no_grad()
def test_a_node_without_events_gets_zeros() -> None:
    found = attend(attention((6, 3, 4)), *parts((6, 3, 4)))
    assert torch.equal(found[2], torch.zeros(INNER))
    assert bool((found[[0, 1, 3, 4]] != 0).all())


@pytest.mark.parametrize("content", [0.0, -1e30, 1e30])
@torch.no_grad()
def test_masked_events_have_no_influence(content: float) -> None:
    layer = attention((6, 3, 4))
    query, keys, mask = parts((6, 3, 4))
    before = attend(layer, query, keys, mask)
    for key in keys:
        key[~mask] = content
    assert torch.equal(attend(layer, query, keys, mask), before)


@torch.no_grad()
def test_every_unmasked_event_has_influence() -> None:
    layer = attention((6, 3, 4))
    query, keys, mask = parts((6, 3, 4))
    before = attend(layer, query, keys, mask)
    for row, column in mask.nonzero().tolist():
        changed = [k.clone() for k in keys]
        changed[1][row, column] += 1.0
        moved = (attend(layer, query, changed, mask) != before).any(dim=1)
        assert moved.tolist() == [i == row for i in range(QUERIES)]


def test_gradients_by_finite_differences_even_without_events() -> None:
    layer = attention((2, 1)).double()
    query, keys, mask = parts((2, 1))
    inputs = [x.double().requires_grad_() for x in (query, *keys)]
    assert torch.autograd.gradcheck(lambda q, *z: attend(layer, q, z, mask), inputs)


def test_dropout_is_applied_in_training_only() -> None:
    layer, (query, keys, mask) = attention((6, 3, 4), dropout=0.9), parts((6, 3, 4))
    without = attention((6, 3, 4))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        assert not torch.equal(attend(layer, query, keys, mask), attend(without, query, keys, mask))
    assert torch.equal(attend(layer.eval(), query, keys, mask), attend(without, query, keys, mask))


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(ValueError, match="inner=12 must be a multiple of heads=5"):
        attention((6,), heads=5)


def test_without_a_choice_the_query_does_not_matter() -> None:
    """Without gradients queries are not even computed."""
    query, keys, _ = parts((2, 5))
    mask = torch.arange(K) < torch.tensor([1, 1, 0, 1, 0]).unsqueeze(1)
    layer = attention((2, 5))
    expected = attend(layer, query, keys, mask).detach()
    with torch.no_grad():
        torch.testing.assert_close(expected, plain(layer, query, keys, mask))
        found = attend(layer, query, keys, mask)
        torch.testing.assert_close(found, expected)
        assert torch.equal(attend(layer, query + 1, keys, mask), found)
        mask[3, 2] = True  # a choice
        assert not torch.equal(attend(layer, query, keys, mask)[3], attend(layer, query + 1, keys, mask)[3])
