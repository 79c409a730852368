"""VGAE against dense matrices, and its divergence against torch's."""

from __future__ import annotations

from typing import Any

import torch
from support.graphs import dense_convolution, dense_graph
from support.problems import random_stream, shape_of, tiny
from torch.distributions import Normal, kl_divergence

from contig.history import History
from contig.models.contract import EventBatch
from contig.models.vgae import divergence


def test_the_divergence_of_normal_distributions() -> None:
    draw = torch.Generator().manual_seed(0)
    mean, log_sigma = torch.randn(2, 5, 3, generator=draw).double()
    expected = kl_divergence(Normal(mean, log_sigma.exp()), Normal(torch.zeros(5, 3), torch.ones(5, 3)))
    torch.testing.assert_close(divergence(mean, log_sigma), expected.sum(dim=1))
    # by hand: mean 1, sigma e: 1/2 (1 + e^2 - 1) - 1
    torch.testing.assert_close(
        divergence(torch.ones(1, 1), torch.ones(1, 1)), torch.tensor([0.5 * torch.e**2 - 1])
    )


def encoded(
    events: int, weight: float = 1.0
) -> tuple[Any, tuple[Any, ...], tuple[torch.Tensor, torch.Tensor]]:
    """A model, a query for all nodes after some events, and the dense distribution of their vectors."""
    stream = random_stream(6, events=25, num_nodes=8)
    model: Any = tiny("vgae", shape_of(stream), refresh=1, divergence=weight, dropout=0)
    nodes, as_of = torch.arange(8), torch.tensor(stream.t[events])
    x, adjacency = dense_graph(model, stream, int((stream.t < stream.t[events]).sum()))
    inner = torch.relu(dense_convolution(model.first, x, adjacency))
    spread = [dense_convolution(layer, inner, adjacency) for layer in (model.mean, model.log_sigma)]
    query = (model.new_state(8), History.from_stream(stream), nodes, as_of.repeat(8), as_of)
    return model, query, (spread[0], spread[1])


def test_embeddings_are_means_in_evaluation() -> None:
    model, query, (mean, _) = encoded(17)
    torch.testing.assert_close(model.embed(*query), mean)


def test_embeddings_are_sampled_in_training() -> None:
    """The same draw, made by hand."""
    model, query, (mean, log_sigma) = encoded(24)
    model.train()
    with torch.random.fork_rng():
        torch.manual_seed(4)
        found = model.embed(*query)
        torch.manual_seed(4)
        noise = torch.randn(9, 6)
    assert len(set(query[1].events["src"].tolist())) == 8  # every node has an event
    pairs, position = model._past(query[1], query[-1])
    place = pairs.places(torch.arange(8), pairs.graph(position))
    torch.testing.assert_close(found, mean + log_sigma.exp() * noise[place])


def test_the_penalty_of_the_evidence_lower_bound() -> None:
    """The mean over nodes divided by their number, because the bound has n^2 pairs and n nodes.

    All nodes without an event count as one.
    """
    for events in (4, 24):
        model, (state, history, _, _, as_of), (mean, log_sigma) = encoded(events, weight=0.7)
        earlier = int(history.events.count_before(as_of.reshape(1)))
        seen = {int(v) for end in ("src", "dst") for v in history.events[end][:earlier]}
        rows = sorted(seen) + [v for v in range(8) if v not in seen][:1]
        if len(seen) == 8:  # no node is isolated, but the place of isolated nodes exists
            alone = model.distribution(model.inputs.vectors[:1], torch.empty(2, 0, dtype=torch.int64))
            mean, log_sigma = (torch.cat(pair) for pair in zip((mean, log_sigma), alone, strict=True))
            rows = list(range(9))
        batch = EventBatch(*(as_of.reshape(1) for _ in range(4)))
        expected = 0.7 * divergence(mean[rows], log_sigma[rows]).mean() / len(rows)
        torch.testing.assert_close(model.penalty(state, history, batch, batch.dst.unsqueeze(1)), expected)
