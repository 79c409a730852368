"""Causality beyond ``check_future_changes_nothing``: the evaluation's walk and the samplers.

That check runs over every model in ``test_contract``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from support.problems import (
    CASES,
    COUPLED,
    UP_TO_THE_BATCH,
    batch_of,
    case,
    random_stream,
    shape_of,
    stream_of,
    tiny,
)
from torch import Tensor

from contig.data.events import EventStream
from contig.data.negative_edges import sample_edges
from contig.data.negatives import KINDS, Kind, Negatives
from contig.history import Choice, History
from contig.tasks.link_scoring import LinkScorer, NegativePairs
from contig.testing.causality import TAMPERINGS, Queries, Tampering, walk


def test_queries_in_a_shared_graph_influence_each_other() -> None:
    """Why scope ``batch`` is a case with joint queries: they are nodes of one graph.

    Events 0--1, then 1--2. Whether node 2 is queried decides whether 1 is coupled with 2.
    """
    stream = stream_of([(0, 1, 1), (1, 2, 2)], 4)
    ask = torch.tensor([0])
    for scope, independent in {"near": True, "pair": True, "all": True, "batch": False}.items():
        model = tiny("contig", shape_of(stream), scope=scope, without="transform")
        history, state = History.from_stream(stream), model.new_state(4)
        for i in range(2):
            model.observe(state, history, batch_of(history, i, i + 1))
        time = torch.tensor([3])
        alone = model.embed(state, history, ask, time, time[0])[0]
        both = model.embed(state, history, torch.tensor([0, 2]), time.repeat(2), time[0])[0]
        assert torch.allclose(alone, both, atol=1e-6) is independent


# -- the past matters ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(set(CASES) - UP_TO_THE_BATCH))
def test_earlier_events_of_the_same_batch_count(name: str) -> None:
    """They are in the past: the neighbor lookup finds them, although the states do not contain them yet.

    Models that read only states, or a graph from before the batch, cannot see them.
    """
    after = [(2, 1, 12), (2, 1, 14), (0, 1, 16)]
    met, other = stream_of([(0, 1, 10), *after], 4), stream_of([(3, 2, 10), *after], 4)
    model, queries = case(name, shape_of(met)), Queries.of(met, 4, seed=0)
    last = [walk(model, stream, queries)[3][0] for stream in (met, other)]
    assert not torch.allclose(*last, atol=1e-6)


# -- the evaluation's own walk ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in CASES if n not in COUPLED])
def test_evaluation_scores_do_not_depend_on_the_future(name: str) -> None:
    stream = random_stream(8, events=45)
    model, cut = case(name, shape_of(stream)), 27
    t = stream.t[cut]
    first = int(np.searchsorted(stream.t, t))
    negative = torch.tensor(np.random.default_rng(0).integers(0, stream.num_nodes, (first, 1)))

    def scores(s: EventStream) -> np.ndarray[Any, Any]:
        history = History.from_stream(s)
        scorer = LinkScorer(model, model.new_state(s.num_nodes), history, batch_size=5)
        return np.stack(scorer(np.arange(first), NegativePairs(negative)))

    expected = scores(stream)
    for tamper in TAMPERINGS.values():
        changed = tamper(stream, first, np.random.default_rng(0))
        np.testing.assert_allclose(scores(changed), expected, rtol=1e-5, atol=1e-6)


# -- samplers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tamper", TAMPERINGS.values(), ids=TAMPERINGS)
@pytest.mark.parametrize("how", ["recent", "uniform"])
@pytest.mark.parametrize("seed", range(3))
def test_neighbors_do_not_depend_on_the_future(seed: int, how: Choice, tamper: Tampering) -> None:
    stream = random_stream(seed)
    t = int(stream.t[25])
    first = int(np.searchsorted(stream.t, t))
    nodes = torch.arange(stream.num_nodes).repeat(2)
    times = torch.tensor([t, t - 2]).repeat_interleave(stream.num_nodes)

    def ask(s: EventStream) -> tuple[Tensor, ...]:
        draw = torch.Generator().manual_seed(5)
        return History.from_stream(s).before(nodes, times, 3, how, draw)

    expected = ask(stream)
    assert bool((expected[2][expected[3]] < t).all())
    for a, b in zip(ask(tamper(stream, first, np.random.default_rng(seed))), expected, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("tamper", TAMPERINGS.values(), ids=TAMPERINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_negatives_do_not_depend_on_the_future(kind: Kind, tamper: Tampering) -> None:
    """Draws from given destinations."""
    stream = random_stream(6, events=90, num_nodes=17)
    first = int(np.searchsorted(stream.t, stream.t[75]))
    train, events = np.arange(first - 35), torch.arange(first)
    changed = tamper(stream, first, np.random.default_rng(1))

    def draw(s: EventStream) -> Tensor:
        negatives = Negatives(s, kind, train=train, destinations=np.arange(s.num_nodes), seed=3)
        return negatives.draw(events, torch.tensor(s.src)[events], 3)

    assert torch.equal(draw(changed), draw(stream))


@pytest.mark.parametrize("tamper", TAMPERINGS.values(), ids=TAMPERINGS)
def test_historical_edges_do_not_depend_on_the_future(
    tamper: Tampering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("contig.data.negative_edges.BLOCK", 7)
    stream = random_stream(6, events=90, num_nodes=17)
    first = int(np.searchsorted(stream.t, stream.t[75]))
    changed = tamper(stream, first, np.random.default_rng(1))
    ours, theirs = (
        sample_edges(s, np.arange(40, first), np.random.default_rng(3)) for s in (stream, changed)
    )
    assert not ours.fallback.any()
    assert all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))
