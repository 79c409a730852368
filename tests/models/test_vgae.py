"""VGAE against dense matrices, and its divergence against torch's."""

from __future__ import annotations

from typing import Any

import torch
from support.graphs import dense_convolution, dense_graph
from support.problems import random_stream, shape_of, tiny
from torch.distributions import Normal, kl_divergence

from contig.history import History
from contig.models.vgae import divergence


def test_the_divergence_is_that_of_normal_distributions() -> None:
    draw = torch.Generator().manual_seed(0)
    mean, log_sigma = torch.randn(2, 5, 3, generator=draw).double()
    expected = kl_divergence(Normal(mean, log_sigma.exp()), Normal(torch.zeros(5, 3), torch.ones(5, 3)))
    torch.testing.assert_close(divergence(mean, log_sigma), expected.sum(dim=1))
    # by hand: mean 1, sigma e: 1/2 (1 + e^2 - 1) - 1
    torch.testing.assert_close(
        divergence(torch.ones(1, 1), torch.ones(1, 1)), torch.tensor([0.5 * torch.e**2 - 1])
    )


def asked(events: int, weight: float = 1.0) -> tuple[Any, tuple[Any, ...], tuple[torch.Tensor, torch.Tensor]]:
    """A model, a question about all nodes after some events, and the dense distribution of their vectors."""
    stream = random_stream(6, events=25, num_nodes=8)
    model: Any = tiny("vgae", shape_of(stream), refresh=1, divergence=weight, dropout=0)
    nodes, as_of = torch.arange(8), torch.tensor(stream.t[events])
    x, adjacency = dense_graph(model, stream, int((stream.t < stream.t[events]).sum()))
    inner = torch.relu(dense_convolution(model.first, x, adjacency))
    spread = [dense_convolution(layer, inner, adjacency) for layer in (model.mean, model.log_sigma)]
    question = (model.new_state(8), History.from_stream(stream), nodes, as_of.repeat(8), as_of)
    return model, question, (spread[0], spread[1])


def test_an_answer_is_the_mean() -> None:
    model, question, (mean, _) = asked(17)
    torch.testing.assert_close(model.embed(*question), mean)


def test_training_draws_around_the_mean() -> None:
    """The same draw, made by hand."""
    model, question, (mean, log_sigma) = asked(24)
    model.train()
    with torch.random.fork_rng():
        torch.manual_seed(4)
        found = model.embed(*question)
        torch.manual_seed(4)
        noise = torch.randn(9, 6)
    assert len(set(question[1].events["src"].tolist())) == 8  # every node has a place
    pairs, position = model._past(question[1], question[-1])
    place = pairs.places(torch.arange(8), pairs.graph(position))
    torch.testing.assert_close(found, mean + log_sigma.exp() * noise[place])


def test_the_penalty_is_the_divergence_of_an_evidence_bound() -> None:
    """Mean over nodes by their number: all pairs count n^2 times, all nodes n times. Nodes without an
    event are one."""
    for events in (4, 24):
        model, (state, history, _, _, as_of), (mean, log_sigma) = asked(events, weight=0.7)
        earlier = int(history.events.count_before(as_of.reshape(1)))
        seen = {int(v) for end in ("src", "dst") for v in history.events[end][:earlier]}
        rows = sorted(seen) + [v for v in range(8) if v not in seen][:1]
        if len(seen) == 8:  # nobody is isolated, yet the place of isolated nodes is there
            alone = model.distribution(model.inputs.vectors[:1], torch.empty(2, 0, dtype=torch.int64))
            mean, log_sigma = (torch.cat(pair) for pair in zip((mean, log_sigma), alone, strict=True))
            rows = list(range(9))
        expected = 0.7 * divergence(mean[rows], log_sigma[rows]).mean() / len(rows)
        torch.testing.assert_close(model.penalty(state, history, as_of), expected)
