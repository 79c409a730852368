"""ConTIG's solvers, scopes and times against one another."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from support.contig_models import SCOPES, contig, embeddings
from support.problems import (
    query_times,
    random_stream,
    run_over,
    stream_of,
)
from torch import Tensor

from contig.errors import ConfigError

NOW = 1_700_000_000


# -- solvers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(("solver", "atol"), [("dopri5", 1e-4), ("rk4", 1e-3)])
def test_all_solvers_agree(solver: str, atol: float, scope: str) -> None:
    stream = random_stream(7, events=20)
    series, other = contig(stream, scope=scope), contig(stream, scope=scope, solver=solver)
    for a, b in zip(embeddings(series, stream), embeddings(other, stream), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=atol)


def test_scopes_agree_if_every_node_has_one_partner() -> None:
    """Then the graphs of all scopes are the graphs of pairs."""
    stream = stream_of([(0, 1, 2), (2, 3, 3), (5, 5, 4)], 7)
    found = [embeddings(contig(stream, scope=scope, hops=9), stream) for scope in SCOPES]
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("horizon", "most"), [(1.0, 9), (0.1, 4)])
def test_walks_longer_than_the_series_are_refused(horizon: float, most: int) -> None:
    stream = random_stream(1)
    contig(stream, scope="near", hops=most, horizon=horizon)
    with pytest.raises(ConfigError, match=f"use hops={most} or fewer"):
        contig(stream, scope="near", hops=most + 1, horizon=horizon)
    contig(stream, scope="all", hops=most + 1, horizon=horizon)  # hops do not matter there


@pytest.mark.parametrize("seed", [2, 3])
def test_near_links_become_the_graph_of_all_nodes(seed: int) -> None:
    """With enough hops and namers nothing is left out; with fewer hops ever more is."""
    stream = random_stream(seed, events=40, num_nodes=9, edge_width=3)
    exact = embeddings(contig(stream, scope="all"), stream)
    errors = []
    for hops in (9, 3, 2, 1):
        found = embeddings(contig(stream, hops=hops, namers=40), stream)
        errors.append(max(float((a - b).abs().max()) for a, b in zip(found, exact, strict=True)))
    assert errors[0] < 2e-5
    assert errors == sorted(errors)


# -- time ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", SCOPES)
def test_only_time_differences_matter(scope: str) -> None:
    """The same stream at Unix seconds gives the same embeddings, bit for bit."""
    stream = random_stream(9)
    model = contig(stream, scope=scope)
    later = replace(stream, t=stream.t + NOW)
    for a, b in zip(embeddings(model, stream), embeddings(model, later), strict=True):
        assert torch.equal(a, b)


@torch.no_grad()
def test_fractions_of_a_second_matter_at_unix_times() -> None:
    def found(start: float, gap: float) -> Tensor:
        stream = stream_of([(0, 1, start), (1, 2, start + 0.5)], 4, float_times=True)
        model = contig(stream)
        state, history = run_over(model, stream, 1)
        time = torch.tensor([start + 0.5 + gap], dtype=torch.float64)
        return model.embed(state, history, torch.tensor([1]), time, time[0])

    assert torch.equal(found(0.0, 0.25), found(float(NOW), 0.25))
    assert not torch.allclose(found(float(NOW), 0.25), found(float(NOW), 0.375))


@torch.no_grad()
def test_one_second_matters_at_unix_times() -> None:
    stream = replace(random_stream(9), t=random_stream(9).t + NOW)
    model = contig(stream)
    state, history = run_over(model, stream, 4)
    (time, _), nodes = query_times(history, 1), torch.tensor([0])
    a, b = (model.embed(state, history, nodes, time + s, time[0] + s) for s in (0, 1))
    assert not torch.allclose(a, b, atol=1e-4)
