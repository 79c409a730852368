"""Scores of links: the scorer against a loop written out, and the negatives of evaluations."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
import torch
from support.gpu_branches import StepsByTensor, pack_as_on_a_gpu
from support.problems import CASES, COUPLED, batch_of, case, random_stream, shape_of, tiny
from torch import Tensor

from contig.data.events import EventStream
from contig.data.splits import chronological_split
from contig.history import History
from contig.models.contract import EventBatch
from contig.streaming.prepared import PreparedStream
from contig.streaming.schedule import schedule
from contig.streaming.walker import Walker, replay
from contig.tasks import link_scoring
from contig.tasks.context import EvaluationContext
from contig.tasks.link import NegativeKind
from contig.tasks.link_negatives import draw_negatives
from contig.tasks.link_scoring import LinkScorer, NegativePairs, score_batch, score_links, score_ours
from contig.tasks.metrics import LinkScores


@pytest.fixture
def stream() -> EventStream:
    return random_stream(2, events=60, num_nodes=11)


def drawn(stream: EventStream, count: int, columns: int = 1) -> Tensor:
    return torch.tensor(np.random.default_rng(1).integers(0, stream.num_nodes, (count, columns)))


@pytest.mark.parametrize("name", CASES)
def test_scores_against_a_loop_written_out(name: str, stream: EventStream) -> None:
    model, history = case(name, shape_of(stream)), History.from_stream(stream)
    train, rest = np.arange(31), np.arange(31, 60)
    assert stream.t[30] < stream.t[31]
    negative, seen = drawn(stream, 29), []
    state, by_hand = model.new_state(11), model.new_state(11)
    replay(model, state, history, train, 4)
    scorer = LinkScorer(model, state, history, 4)
    found = scorer(rest, NegativePairs(negative), seen.append)

    replay(model, by_hand, history, train, 4)
    waiting, rows = 31, []
    with torch.no_grad():
        for start in range(31, 60, 4):
            batch = batch_of(history, start, min(start + 4, 60))
            ready = int(np.searchsorted(stream.t, stream.t[start]))  # events before the time of this batch
            model.observe(by_hand, history, batch_of(history, waiting, max(ready, waiting)))
            waiting = max(ready, waiting)
            candidates = torch.cat([batch.dst.unsqueeze(1), negative[batch.event - 31]], dim=1)
            rows.append(model.link(by_hand, history, batch.src, candidates, batch.t, batch.t[0]))
        model.observe(by_hand, history, batch_of(history, waiting, 60))
    expected = torch.cat(rows).numpy()
    np.testing.assert_array_equal(np.stack(found, axis=1), expected)
    assert all(torch.equal(state[k], v) for k, v in by_hand.rows.items())
    assert state.position == 60
    assert sum(seen) == 29


def test_scoring_in_two_parts_gives_the_same_scores(stream: EventStream) -> None:
    """If the cut is between batches and between times."""
    model, history = case("contig", shape_of(stream)), History.from_stream(stream)
    cuts = [i for i in range(6, 60, 6) if stream.t[i - 1] < stream.t[i]]
    assert cuts
    cut, negative = cuts[0], NegativePairs(drawn(stream, 60))
    whole = LinkScorer(model, model.new_state(11), history, 6)(np.arange(60), negative)
    scorer = LinkScorer(model, model.new_state(11), history, 6)
    first = scorer(np.arange(cut), negative.of(torch.arange(cut)))
    assert scorer.state.position == cut
    second = scorer(np.arange(cut, 60), negative.of(torch.arange(cut, 60)))
    np.testing.assert_array_equal(np.stack(whole), np.hstack([first, second]))


def test_scoring_does_not_use_dropout(stream: EventStream) -> None:
    """Whether the model is in training mode or not."""
    model, history = case("contig", shape_of(stream)), History.from_stream(stream)
    negative = NegativePairs(drawn(stream, 60))
    expected = LinkScorer(model, model.new_state(11), history, 6)(np.arange(60), negative)
    found = LinkScorer(model.train(), model.new_state(11), history, 6)(np.arange(60), negative)
    np.testing.assert_array_equal(np.stack(found), np.stack(expected))


def test_scoring_no_events(stream: EventStream) -> None:
    model, history = case("contig", shape_of(stream)), History.from_stream(stream)
    state = model.new_state(11)
    state.position = 4
    nothing = NegativePairs(torch.empty(0, 1, dtype=torch.int64))
    found = LinkScorer(model, state, history, 6)(np.arange(0), nothing)
    assert found.positive.shape == found.negative.shape == (0,)
    assert state.position == 4


def test_the_true_destination_comes_first(stream: EventStream) -> None:
    model, history = case("edgebank", shape_of(stream)), History.from_stream(stream)
    at = torch.tensor([58, 59])
    batch = EventBatch.of(history, at)
    negative = torch.tensor([[0, 1, 2], [3, 4, 5]])
    logits = score_batch(model, model.new_state(11), history, batch, NegativePairs(negative))
    met = {
        (int(s), int(d)) for s, d, t in zip(stream.src, stream.dst, stream.t, strict=True) if t < batch.t[0]
    }
    for i in range(2):
        candidates = [int(batch.dst[i]), *negative[i].tolist()]
        assert logits[i].tolist() == [float((int(batch.src[i]), d) in met) for d in candidates]


@pytest.mark.parametrize("name", CASES)
def test_negatives_with_sources_of_their_own(name: str, stream: EventStream) -> None:
    """The same scores as those of pairs scored one by one; the true pair is scored as ever."""
    model, history = case(name, shape_of(stream)).eval(), History.from_stream(stream)
    state = model.new_state(11)
    replay(model, state, history, np.arange(31), 4)
    batch = batch_of(history, 31, 37)
    pairs = NegativePairs(drawn(stream, 6, 3), drawn(stream, 6, 3).flip(0))
    with torch.no_grad():
        found = score_batch(model, state, history, batch, pairs)
        own = score_batch(model, state, history, batch, NegativePairs(pairs.dst))
        assert pairs.src is not None
        for column in range(3):
            expected = model.link(
                state, history, pairs.src[:, column], pairs.dst[:, [column]], batch.t, batch.t[0]
            )
            torch.testing.assert_close(found[:, [1 + column]], expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found[:, 0], own[:, 0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", get_args(NegativeKind))
@pytest.mark.parametrize("name", ["contig", "tgn", "recency"])
def test_both_protocols_are_scored_in_one_walk(name: str, kind: NegativeKind, stream: EventStream) -> None:
    """``ours`` bit by bit as alone; ``dyglib`` as by a loop over the inductive events of each batch."""
    model = case(name, shape_of(stream)).eval()
    split = chronological_split(stream, holdout="tgn", hidden=0.3, seed=1)
    data = PreparedStream.of(stream, split, torch.device("cpu"))
    negatives = draw_negatives(stream, split, split.test, kind)
    new = negatives.inductive
    assert 2 < new.sum() < len(new)

    def context() -> EvaluationContext:
        state = model.new_state(11)
        replay(model, state, data.history, np.arange(split.test[0]), 4)
        return EvaluationContext(model, state, data, 4)

    found, ours = score_links(context(), negatives), score_ours(context(), negatives)
    np.testing.assert_array_equal(np.stack(found.ours), np.stack(ours))

    by_hand, place, expected = context().state, 0, []
    with torch.no_grad():
        for step in schedule(stream.t[split.test], 4):
            events = split.test[step.start : step.stop]
            rows = new[step.start : step.stop]
            for event in events[rows].tolist():
                src, dst = (torch.tensor([int(side[place])]) for side in negatives.dyglib[:2])
                t, first = torch.tensor([stream.t[event]]), torch.tensor(stream.t[events[0]])
                true = torch.tensor([stream.src[event]]), torch.tensor([[stream.dst[event]]])
                pairs = (true, (src, dst.unsqueeze(1)))
                expected.append([model.link(by_hand, data.history, *p, t, first).item() for p in pairs])
                place += 1
            seen = slice(split.test[0] + step.observe_from, split.test[0] + step.observe_to)
            model.observe(by_hand, data.history, batch_of(data.history, seen.start, seen.stop))
    np.testing.assert_allclose(np.stack(found.dyglib, axis=1), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["contig", "contig-without-transform", "tgn"])
def test_packed_nodes_get_the_same_scores(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a state that knows the training events alone, and by one that knows the scored events already."""
    stream = random_stream(3, events=400, num_nodes=300)
    split = chronological_split(stream, holdout="tgn", hidden=0.3, seed=1)
    assert split.hidden_events > 50
    settings = {"without": "transform"} if name == "contig-without-transform" else {}
    model = tiny(name.removesuffix("-without-transform"), shape_of(stream), **settings).eval()
    data = PreparedStream.of(stream, split, torch.device("cpu"))
    negatives = draw_negatives(stream, split, split.val, "random")
    assert 2 < negatives.inductive.sum() < len(split.val)
    known = model.new_state(300)
    replay(model, known, data.training, split.train, 4)
    again = known.clone()
    replay(model, again, data.history, split.val, 4)
    states = (known, again)
    expected = [score_links(EvaluationContext(model, s.clone(), data, 5), negatives) for s in states]

    used = pack_as_on_a_gpu(monkeypatch)
    walkers = []

    def walker(*arguments: Any, **named: Any) -> Walker:
        walkers.append(StepsByTensor(Walker(*arguments, **named)))
        return walkers[-1].walker

    monkeypatch.setattr(link_scoring, "Walker", walker)
    for state, one in zip(states, expected, strict=True):
        both = score_links(EvaluationContext(model, state.clone(), data, 5), negatives)
        ours = score_ours(EvaluationContext(model, state.clone(), data, 5), negatives)
        for found, scores in ((both.ours, one.ours), (both.dyglib, one.dyglib), (ours, one.ours)):
            np.testing.assert_allclose(np.stack(found), np.stack(scores), rtol=1e-4, atol=1e-5)
    assert [one.count > 5 for one in walkers] == [True] * 4
    assert len(used) >= (1 if name == "tgn" else 2)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["random", "historical"])
@pytest.mark.parametrize("name", [n for n in CASES if n not in COUPLED])
def test_both_protocols_on_a_gpu(name: str, kind: NegativeKind) -> None:
    """Captured, where all events are scored twice, as on a CPU, where only the inductive ones are."""
    stream = random_stream(3, events=120, num_nodes=17)
    split = chronological_split(stream, holdout="tgn", hidden=0.3, seed=1)
    negatives = draw_negatives(stream, split, split.test, kind)
    assert negatives.inductive.any()

    def scores(device: str) -> tuple[LinkScores, LinkScores]:
        model = case(name, shape_of(stream)).to(device)
        data = PreparedStream.of(stream, split, torch.device(device))
        return score_links(EvaluationContext(model, model.new_state(17), data, 3), negatives)

    for ours, theirs in zip(scores("cuda"), scores("cpu"), strict=True):
        np.testing.assert_allclose(np.stack(ours), np.stack(theirs), rtol=1e-3, atol=1e-4)


def test_the_stream_has_ties_across_batches(stream: EventStream) -> None:
    """Or the tests above would prove little."""
    assert any(step.observe_to < step.stop for step in schedule(stream.t[31:], 4)[:-1])
