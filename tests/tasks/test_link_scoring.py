"""Scores of links: the scorer against a loop written out, and the negatives of evaluations."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.problems import CASES, batch_of, case, random_stream, shape_of
from torch import Tensor

from contig.data.events import EventStream
from contig.data.splits import chronological_split
from contig.history import History
from contig.models.contract import EventBatch
from contig.streaming.schedule import schedule
from contig.streaming.walker import replay
from contig.tasks.link_scoring import LinkScorer, evaluation_negatives, score_batch


@pytest.fixture
def stream() -> EventStream:
    return random_stream(2, events=60, num_nodes=11)


def drawn(stream: EventStream, count: int) -> Tensor:
    return torch.tensor(np.random.default_rng(1).integers(0, stream.num_nodes, (count, 1)))


@pytest.mark.parametrize("name", CASES)
def test_scores_against_a_loop_written_out(name: str, stream: EventStream) -> None:
    model, history = case(name, shape_of(stream)), History.from_stream(stream)
    train, rest = np.arange(31), np.arange(31, 60)
    assert stream.t[30] < stream.t[31]
    negative, seen = drawn(stream, 29), []
    state, by_hand = model.new_state(11), model.new_state(11)
    replay(model, state, history, train, 4)
    scorer = LinkScorer(model, state, history, 4)
    found = scorer(rest, negative, seen.append)

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
    np.testing.assert_array_equal(found.positive, expected[:, 0])
    np.testing.assert_array_equal(found.negative, expected[:, 1])
    assert all(torch.equal(state[k], v) for k, v in by_hand.rows.items())
    assert state.position == 60
    assert sum(seen) == 29


def test_scoring_in_two_parts_gives_the_same_scores(stream: EventStream) -> None:
    """If the cut is between batches and between times."""
    model, history = case("contig", shape_of(stream)), History.from_stream(stream)
    cuts = [i for i in range(6, 60, 6) if stream.t[i - 1] < stream.t[i]]
    assert cuts
    cut, negative = cuts[0], drawn(stream, 60)
    whole = LinkScorer(model, model.new_state(11), history, 6)(np.arange(60), negative)
    scorer = LinkScorer(model, model.new_state(11), history, 6)
    first = scorer(np.arange(cut), negative[:cut])
    assert scorer.state.position == cut
    second = scorer(np.arange(cut, 60), negative[cut:])
    for one, a, b in zip(whole, first, second, strict=True):
        np.testing.assert_array_equal(one, np.r_[a, b])


def test_scoring_does_not_use_dropout(stream: EventStream) -> None:
    """Whether the model is in training mode or not."""
    model, history = case("contig", shape_of(stream)), History.from_stream(stream)
    negative = drawn(stream, 60)
    expected = LinkScorer(model, model.new_state(11), history, 6)(np.arange(60), negative)
    found = LinkScorer(model.train(), model.new_state(11), history, 6)(np.arange(60), negative)
    np.testing.assert_array_equal(np.stack(found), np.stack(expected))


def test_scoring_no_events(stream: EventStream) -> None:
    model, history = case("contig", shape_of(stream)), History.from_stream(stream)
    state = model.new_state(11)
    state.position = 4
    found = LinkScorer(model, state, history, 6)(np.arange(0), torch.empty(0, 1, dtype=torch.int64))
    assert found.positive.shape == found.negative.shape == (0,)
    assert state.position == 4


def test_the_true_destination_comes_first(stream: EventStream) -> None:
    model, history = case("edgebank", shape_of(stream)), History.from_stream(stream)
    at = torch.tensor([58, 59])
    batch = EventBatch.of(history, at)
    negative = torch.tensor([[0, 1, 2], [3, 4, 5]])
    logits = score_batch(model, model.new_state(11), history, batch, negative)
    met = {
        (int(s), int(d)) for s, d, t in zip(stream.src, stream.dst, stream.t, strict=True) if t < batch.t[0]
    }
    for i in range(2):
        candidates = [int(batch.dst[i]), *negative[i].tolist()]
        assert logits[i].tolist() == [float((int(batch.src[i]), d) in met) for d in candidates]


def test_negatives_are_always_the_same_and_never_true(stream: EventStream) -> None:
    """Whatever was drawn before."""
    split = chronological_split(stream, seed=0)
    torch.manual_seed(1)
    first = evaluation_negatives(stream, split, split.test, "random", "cpu")
    torch.manual_seed(2)
    evaluation_negatives(stream, split, split.val, "random", "cpu")
    assert torch.equal(evaluation_negatives(stream, split, split.test, "random", "cpu"), first)
    true = {(int(s), int(d), int(t)) for s, d, t in zip(stream.src, stream.dst, stream.t, strict=True)}
    for event, other in zip(split.test, first[:, 0].tolist(), strict=True):
        assert (int(stream.src[event]), other, int(stream.t[event])) not in true
        assert other in stream.destinations


def test_historical_negatives_are_pairs_of_the_training_events(stream: EventStream) -> None:
    split = chronological_split(stream, seed=0)
    drawn = evaluation_negatives(stream, split, split.test, "historical", "cpu")
    trained: dict[int, set[int]] = {}
    for event in split.train:
        trained.setdefault(int(stream.src[event]), set()).add(int(stream.dst[event]))
    at = {
        t: {(int(stream.src[i]), int(stream.dst[i])) for i in np.flatnonzero(stream.t == t)} for t in stream.t
    }
    for event, other in zip(split.test, drawn[:, 0].tolist(), strict=True):
        src = int(stream.src[event])
        left = {d for d in trained.get(src, set()) if (src, d) not in at[stream.t[event]]}
        assert other in left or not left


def test_the_stream_has_ties_across_batches(stream: EventStream) -> None:
    """Or the tests above would prove little."""
    assert any(step.observe_to < step.stop for step in schedule(stream.t[31:], 4)[:-1])
