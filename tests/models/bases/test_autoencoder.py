"""The graph of all pairs so far, against sets of pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from support.problems import random_stream, shape_of, tiny

from contig.history import History
from contig.models.bases.autoencoder import Pairs
from contig.training.optimizer import FlatAdam


def edges_before(pairs: Pairs, position: int) -> set[tuple[int, int]]:
    """The edges of a graph as pairs of node ids, each once."""
    graph = pairs.graph(position)
    ids = [-1, *graph.nodes.tolist()]
    edges = [(ids[a], ids[b]) for a, b in graph.edges.T.tolist()]
    assert len(edges) == len(set(edges))
    return set(edges)


@pytest.mark.parametrize("seed", range(3))
def test_a_graph_is_the_set_of_pairs_before_a_position(seed: int) -> None:
    stream = random_stream(seed, events=50, num_nodes=13)
    assert np.any(stream.src == stream.dst)
    whole = History.from_stream(stream)
    held = np.flatnonzero(np.random.default_rng(seed).random(50) < 0.7)
    for history, numbers in ((whole, range(50)), (whole.only(held), held.tolist())):
        pairs = Pairs(history)
        for position in (0, 1, 7, 23, 49, 50):
            met = [(int(stream.src[i]), int(stream.dst[i])) for i in numbers if i < position]
            expected = {(a, b) for a, b in met if a != b} | {(b, a) for a, b in met if a != b}
            assert edges_before(pairs, position) == expected
            graph = pairs.graph(position)
            assert set(graph.nodes.tolist()) == {v for pair in met for v in pair}
            ids = torch.tensor([*range(13), 40])
            places = pairs.places(ids, graph).tolist()
            order = list(dict.fromkeys(v for pair in met for v in pair))
            assert places == [order.index(v) + 1 if v in order else 0 for v in ids.tolist()]


def test_pairs_do_not_cover_a_history_that_has_grown() -> None:
    stream = random_stream(1, events=20, num_nodes=6)
    history = History.from_stream(stream[:8])
    history.grow(6)
    pairs = Pairs(history)
    assert pairs.covers(history, 8)
    assert not pairs.covers(history, 9)
    assert not pairs.covers(History.from_stream(stream), 8)


@pytest.mark.parametrize("name", ["gae", "vgae"])
def test_the_graph_is_rebuilt_every_refresh_events(name: str) -> None:
    """At ``as_of`` it holds the events up to the last multiple of ``refresh`` strictly before it."""
    stream = random_stream(4, events=30)
    model: Any = tiny(name, shape_of(stream), refresh=7)
    history, state = History.from_stream(stream), model.new_state(9)
    nodes = torch.arange(9)
    for i in (3, 12, 20, 29):
        as_of = torch.tensor(stream.t[i])
        earlier = int((stream.t < stream.t[i]).sum())
        found = model.embed(state, history, nodes, as_of.repeat(9), as_of)
        cut = History.from_stream(stream[: earlier // 7 * 7])
        cut.grow(9)
        expected = model.embed(state, cut, nodes, as_of.repeat(9), as_of)
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("name", ["gae", "vgae"])
def test_the_cached_encoding_follows_weights_and_events(name: str) -> None:
    """A graph is encoded once per set of weights: count the calls, and compare with fresh encodings."""
    stream = random_stream(5, events=30)
    model: Any = tiny(name, shape_of(stream), refresh=2)
    history, other, state = History.from_stream(stream), History.from_stream(stream[:15]), model.new_state(9)
    other.grow(9)
    nodes, calls, encode = torch.arange(9), [], model.encode
    model.encode = lambda *args: calls.append(1) or encode(*args)

    def ask(past: History, i: int) -> torch.Tensor:
        as_of = torch.tensor(stream.t[i])
        fresh = model.embed(state, past, nodes, as_of.repeat(9), as_of)  # nothing is cached with gradients
        with torch.no_grad():
            first = model.embed(state, past, nodes, as_of.repeat(9), as_of)
            before = len(calls)
            assert torch.equal(model.embed(state, past, nodes, as_of.repeat(9), as_of), first)
            assert len(calls) == before
        torch.testing.assert_close(first, fresh)
        return first

    early, late = ask(history, 9), ask(history, 25)
    assert not torch.allclose(early, late)
    torch.testing.assert_close(ask(other, 9), early)
    optimizer = FlatAdam(
        model, lr=0.1, weight_decay=0, clip=1
    )  # it changes weights without torch's version counter
    as_of = torch.tensor(stream.t[25])
    torch.testing.assert_close(ask(history, 25), late)
    model.train()
    model.embed(state, history, nodes, as_of.repeat(9), as_of).sum().backward()
    optimizer.step()
    model.eval()
    assert not torch.allclose(ask(history, 25), late)
    weights = {k: torch.zeros_like(v) for k, v in model.state_dict().items()}
    model.load_state_dict(weights)
    assert torch.equal(ask(history, 25), torch.zeros(9, 6))
