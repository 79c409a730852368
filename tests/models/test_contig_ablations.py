"""The ablations of ConTIG against the full model with forced weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.contig_models import SCOPES, contig, embeddings
from support.problems import (
    query_times,
    random_stream,
    run_over,
)

from contig.data.events import EventStream
from contig.errors import ConfigError
from contig.layers.ode import FACTORS
from contig.models.contig import ConTIG


def same(a: ConTIG, b: ConTIG, stream: EventStream) -> bool:
    pairs = zip(embeddings(a, stream), embeddings(b, stream), strict=True)
    return all(torch.allclose(x, y, rtol=1e-5, atol=1e-6) for x, y in pairs)


def force_gate(model: ConTIG, factor: int, bias: float) -> None:
    """Fix one gate at ``sigmoid(bias)`` for every node."""
    rows = slice(factor * model.opt.dim, (factor + 1) * model.opt.dim)
    assert model.ode.gates is not None
    with torch.no_grad():
        model.ode.gates.weight[rows] = 0
        model.ode.gates.bias[rows] = bias


def twins(stream: EventStream, without: str, scope: str, **settings: Any) -> tuple[ConTIG, ConTIG]:
    """The full model and the ablated one, with the same weights."""
    full, ablated = contig(stream, scope=scope, **settings), contig(stream, scope=scope, without=without)
    ablated.load_state_dict(full.state_dict(), strict=False)
    return full, ablated


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("factor", FACTORS)
def test_without_a_factor_its_gate_is_closed(factor: str, scope: str) -> None:
    stream = random_stream(6)
    full, ablated = twins(stream, factor, scope)
    assert not same(full, ablated, stream)
    force_gate(full, FACTORS.index(factor), -1e4)
    assert same(full, ablated, stream)


@pytest.mark.parametrize("scope", SCOPES)
def test_without_adaptive_every_gate_is_open(scope: str) -> None:
    stream = random_stream(6)
    full, ablated = twins(stream, "adaptive", scope)
    assert not same(full, ablated, stream)
    for factor in range(3):
        force_gate(full, factor, 1e4)
    assert same(full, ablated, stream)


@pytest.mark.parametrize("scope", SCOPES)
def test_without_update_the_horizon_is_zero(scope: str) -> None:
    stream = random_stream(6)
    full, ablated = twins(stream, "update", scope)
    assert not same(full, ablated, stream)
    short, _ = twins(stream, "update", scope, horizon=1e-9)
    short.load_state_dict(full.state_dict())
    assert same(short, ablated, stream)


@pytest.mark.parametrize("scope", SCOPES)
@torch.no_grad()
def test_without_transform_the_embedding_is_the_state(scope: str) -> None:
    stream = random_stream(6)
    full, ablated = twins(stream, "transform", scope)
    assert not same(full, ablated, stream)
    state, history = run_over(full, stream, 4)
    nodes, (times, as_of) = torch.tensor([4, 0, 4, 7]), query_times(history, 4)
    members = torch.unique(nodes)
    moved = full.updated(state, history, members, as_of)[torch.searchsorted(members, nodes)]
    torch.testing.assert_close(ablated.embed(state, history, nodes, times, as_of), moved)


def test_ablations_combine() -> None:
    stream = random_stream(6)
    full, ablated = twins(stream, "latest,neighbor", "pair")
    force_gate(full, 0, -1e4)
    assert not same(full, ablated, stream)
    force_gate(full, 1, -1e4)
    assert same(full, ablated, stream)


def test_an_unknown_ablation_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'neighbour'\. Did you mean 'neighbor'"):
        contig(random_stream(0), without="neighbour")
