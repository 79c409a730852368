"""What happens at or after ``t`` changes no answer for ``t``: every model, every sampler, one checker.

A stream is walked as training and evaluation walk it: a batch is scored, then what lies strictly
before the next batch is observed. Then everything at or after some ``t`` is tampered with, the walk
is repeated, and whatever was asked about times up to ``t`` must get the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
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
    embeds,
    random_stream,
    shape_of,
    stream_of,
    tiny,
    with_events,
)
from torch import Tensor

from contig.data.events import EventStream
from contig.data.negatives import KINDS, Kind, Negatives
from contig.history import Choice, History
from contig.models import EventBatch, Model, NodeState
from contig.streaming.schedule import schedule
from contig.tasks.link import LinkScorer

Tampering = Callable[[EventStream, int, np.random.Generator], EventStream]

# -- tampering with the future --------------------------------------------------------------------------


def delete(stream: EventStream, first: int, rng: np.random.Generator) -> EventStream:
    """Nothing happens any more."""
    return with_events(stream, np.arange(first))


def delete_some(stream: EventStream, first: int, rng: np.random.Generator) -> EventStream:
    later = np.arange(first, len(stream))
    return with_events(stream, np.r_[np.arange(first), later[rng.random(len(later)) < 0.5]])


def permute(stream: EventStream, first: int, rng: np.random.Generator) -> EventStream:
    """The same meetings at the same times, but in another order."""
    order = np.r_[np.arange(first), first + rng.permutation(len(stream) - first)]
    return replace(with_events(stream, order), t=stream.t)


def alter(stream: EventStream, first: int, rng: np.random.Generator) -> EventStream:
    """Others meet, with other features, at other times from ``t`` on."""
    later = len(stream) - first
    src, dst, t = stream.src.copy(), stream.dst.copy(), stream.t.copy()
    src[first:], dst[first:] = rng.integers(0, stream.num_nodes, (2, later))
    t[first:] = t[first] + np.sort(rng.integers(0, 3, later))
    features = None
    if stream.edge_features is not None:
        features = stream.edge_features.copy()
        features[first:] = 1000 * rng.normal(size=features[first:].shape)
    return replace(stream, src=src, dst=dst, t=t, edge_features=features)


def crowd(stream: EventStream, first: int, rng: np.random.Generator) -> EventStream:
    """Many more events at ``t`` itself, before what was there."""
    order = np.r_[np.arange(first), rng.integers(first, len(stream), 11), np.arange(first, len(stream))]
    crowded = with_events(stream, order)
    times = crowded.t.copy()
    times[first : first + 11] = stream.t[first]
    return replace(crowded, t=times)


TAMPERING: dict[str, Tampering] = {f.__name__: f for f in (delete, delete_some, permute, alter, crowd)}

# -- the checker ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """Queries in the order of their times, to be asked in batches: who meets whom, when."""

    src: Tensor  # [queries]
    dst: Tensor  # [queries, candidates]
    t: Tensor  # [queries]
    batch_size: int


def asked_of(stream: EventStream, batch_size: int, seed: int) -> Asked:
    """Every event of the stream, against one more candidate than it has."""
    rng = np.random.default_rng(seed)
    other = rng.integers(0, stream.num_nodes, (len(stream), 2))
    candidates = np.concatenate([stream.dst[:, None], other], axis=1)
    return Asked(*map(torch.tensor, (stream.src, candidates, stream.t)), batch_size=batch_size)


@torch.no_grad()
def walk(model: Model, stream: EventStream, asked: Asked, until: float) -> dict[int, Tensor]:
    """The answers by query, to those about times up to ``until``, in the batches of the queries."""
    history, state = History.from_stream(stream), model.new_state(stream.num_nodes)
    answers, embedding = {}, embeds(model)
    for step in schedule(asked.t.numpy(), asked.batch_size):
        rows = torch.arange(step.start, step.stop)
        rows = rows[asked.t[rows] <= until]
        if not len(rows):
            break
        src, dst, t, as_of = asked.src[rows], asked.dst[rows], asked.t[rows], asked.t[step.start]
        found = model.link(state, history, src, dst, t, as_of)
        if embedding:
            found = torch.cat([found, model.embed(state, history, src, t, as_of)], dim=1)
        answers |= dict(zip(rows.tolist(), found, strict=True))
        see = min(step.observe_to, len(stream))  # after the last batch that matters anything may be observed
        model.observe(state, history, batch_of(history, step.observe_from, see))
    return answers


def leaks(model: Model, stream: EventStream, *, coupled: bool = False, seed: int = 0) -> list[str]:
    """Every way found in which the model's answers depend on the future.

    Where queries are ``coupled`` the same set of them is asked both times; otherwise those about
    later times are left out the second time, and must not be missed.
    """
    rng = np.random.default_rng(seed)
    found = []
    for batch_size, cuts in ((1, 1), (5, 3)):
        asked = asked_of(stream, batch_size, seed)
        whole = walk(model, stream, asked, until=np.inf)
        for t in rng.choice(np.unique(stream.t)[1:], cuts, replace=False).tolist():
            first = int(np.searchsorted(stream.t, t, side="left"))
            expected = walk(model, stream, asked, until=t) if coupled else whole
            for name, tamper in TAMPERING.items():
                answers = walk(model, tamper(stream, first, rng), asked, until=t)
                assert sorted(answers) == np.flatnonzero(asked.t <= t).tolist()
                found += [
                    f"batch size {batch_size}, {name} from {t}: query {i} at {asked.t[i]}"
                    for i, answer in answers.items()
                    if not torch.allclose(answer, expected[i], rtol=1e-5, atol=1e-6)
                ]
    return found


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_future_changes_nothing(name: str, seed: int) -> None:
    stream = random_stream(seed, edge_width=3 * (seed % 2))
    assert np.any(stream.t[1:] == stream.t[:-1])
    model = case(name, shape_of(stream))
    assert leaks(model, stream, coupled=name in COUPLED, seed=seed) == []


def test_queries_in_a_shared_graph_answer_for_one_another() -> None:
    """Why scope ``batch`` is checked with its queries held fixed: they are nodes of one graph.

    Node 0 met 1, then 1 met 2. Whether somebody asks about 2 decides whether 1 is coupled with 2.
    """
    stream = stream_of([(0, 1, 1), (1, 2, 2)], 4)
    ask = torch.tensor([0])
    for scope, independent in {"pair": True, "all": True, "batch": False}.items():
        model = tiny("contig", shape_of(stream), scope=scope, without="transform")
        history, state = History.from_stream(stream), model.new_state(4)
        for i in range(2):
            model.observe(state, history, batch_of(history, i, i + 1))
        time = torch.tensor([3])
        alone = model.embed(state, history, ask, time, time[0])[0]
        both = model.embed(state, history, torch.tensor([0, 2]), time.repeat(2), time[0])[0]
        assert torch.allclose(alone, both, atol=1e-6) is independent


# -- the checker can fail ---------------------------------------------------------------------------------


class Toy(Model):
    """Embeds a node as the ages of its last events; its subclasses cheat, each in its own way."""

    name = "toy"
    learns = False

    def blank(self) -> Mapping[str, Tensor]:
        return {"count": torch.zeros(1)}

    def embed(
        self, state: NodeState, history: History, nodes: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        near = history.before(nodes, self.when(times), 3)
        age = torch.where(near.mask, times.unsqueeze(1) - near.time + 1, 0).float()
        return torch.cat([age, state["count"][nodes]], dim=1)

    def when(self, times: Tensor) -> Tensor:
        return times

    def observe(self, state: NodeState, history: History, batch: EventBatch) -> None:
        ends = torch.cat([batch.src, batch.dst])
        state["count"].index_add_(0, ends, torch.ones(len(ends), 1))

    def score(self, src: Tensor, dst: Tensor) -> Tensor:
        return (src * dst).sum(-1)


class LooksAtNow(Toy):
    """Takes events of the query's own time for past ones."""

    def when(self, times: Tensor) -> Tensor:
        return times + 1


class LooksAhead(Toy):
    def when(self, times: Tensor) -> Tensor:
        return times + 3


class KnowsTheStream(Toy):
    """Normalises by a statistic of all events, those to come included."""

    def embed(self, state: NodeState, history: History, *rest: Any) -> Tensor:
        return super().embed(state, history, *rest) / history.events["t"].double().mean()


class RemembersTooMuch(Toy):
    """Observes the events beside the batch as well."""

    def observe(self, state: NodeState, history: History, batch: EventBatch) -> None:
        if len(batch.event):
            stop = min(int(batch.event[-1]) + 2, history.num_events)
            super().observe(state, history, batch_of(history, int(batch.event[0]), stop))


class MixesQueries(Toy):
    """Embeddings depend on who else is asked about, and later queries know more."""

    def embed(self, state: NodeState, history: History, *rest: Any) -> Tensor:
        found = super().embed(state, history, *rest)
        return found - found.mean(dim=0)


def test_an_honest_toy_passes() -> None:
    assert leaks(Toy(), random_stream(3)) == []


@pytest.mark.parametrize("cheat", [LooksAtNow, LooksAhead, KnowsTheStream, RemembersTooMuch, MixesQueries])
def test_a_leaking_model_is_caught(cheat: type[Toy]) -> None:
    assert leaks(cheat(), random_stream(3)) != []


def test_a_walk_that_observes_ties_too_early_would_be_seen() -> None:
    """Without the deferral of ties, an honest model knows an event of its query's own time."""
    stream = stream_of([(0, 1, 5), (0, 1, 5), (0, 1, 5)], 2)
    history, model = History.from_stream(stream), Toy()
    eager, deferred = model.new_state(2), model.new_state(2)
    known = []
    for step in schedule(stream.t, 1):
        known.append((float(eager["count"][0]), float(deferred["count"][0])))
        model.observe(eager, history, batch_of(history, step.start, step.stop))
        model.observe(deferred, history, batch_of(history, step.observe_from, step.observe_to))
    assert known == [(0, 0), (1, 0), (2, 0)]


# -- the past does change something -------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(set(CASES) - UP_TO_THE_BATCH))
def test_earlier_events_of_the_same_batch_are_seen(name: str) -> None:
    """They are in the past: the neighbour lookup knows them, though the states do not yet.

    Only a model that reads nothing but states or a graph from before the batch cannot see them.
    """
    after = [(2, 1, 12), (3, 2, 14), (0, 1, 16)]
    met, other = stream_of([(0, 1, 10), *after], 4), stream_of([(3, 2, 10), *after], 4)
    model, asked = case(name, shape_of(met)), asked_of(met, 4, seed=0)
    last = [walk(model, stream, asked, until=np.inf)[3][0] for stream in (met, other)]
    assert not torch.allclose(*last, atol=1e-6)


# -- the evaluation's own walk ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in CASES if n not in COUPLED])
def test_the_evaluation_s_scores_do_not_know_the_future(name: str) -> None:
    stream = random_stream(8, events=45)
    model, cut = case(name, shape_of(stream)), 27
    t = stream.t[cut]
    first = int(np.searchsorted(stream.t, t))
    negative = torch.tensor(np.random.default_rng(0).integers(0, stream.num_nodes, (first, 1)))

    def scores(s: EventStream) -> np.ndarray[Any, Any]:
        history = History.from_stream(s)
        scorer = LinkScorer(model, model.new_state(s.num_nodes), history, batch_size=5)
        return np.stack(scorer(np.arange(first), negative))

    expected = scores(stream)
    for tamper in TAMPERING.values():
        changed = tamper(stream, first, np.random.default_rng(0))
        np.testing.assert_allclose(scores(changed), expected, rtol=1e-5, atol=1e-6)


# -- samplers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tamper", TAMPERING.values(), ids=TAMPERING)
@pytest.mark.parametrize("how", ["recent", "uniform"])
@pytest.mark.parametrize("seed", range(3))
def test_neighbours_do_not_know_the_future(seed: int, how: Choice, tamper: Tampering) -> None:
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


@pytest.mark.parametrize("tamper", TAMPERING.values(), ids=TAMPERING)
@pytest.mark.parametrize("kind", KINDS)
def test_negatives_do_not_know_the_future(kind: Kind, tamper: Tampering) -> None:
    """With the destinations given; ``inductive`` ones are pairs of the future by their very meaning."""
    stream = random_stream(6, events=50)
    t = stream.t[35]
    first = int(np.searchsorted(stream.t, t))
    events = torch.arange(first)

    def draw(s: EventStream) -> Tensor:
        everyone = np.arange(s.num_nodes)
        negatives = Negatives(s, kind, train=np.arange(first - 8), destinations=everyone, seed=3)
        return negatives.draw(events, torch.tensor(s.src)[events], 3)

    same = torch.equal(draw(tamper(stream, first, np.random.default_rng(1))), draw(stream))
    assert same or kind == "inductive"
