"""Link prediction: the walk against a loop by hand, and the protocol's selections against a slow one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from support.problems import CASES, batch_of, case, random_stream, shape_of
from torch import Tensor

from contig.data.events import EventStream
from contig.data.splits import HOLDOUTS, Holdout, Split, chronological_split
from contig.errors import RunError
from contig.history import History
from contig.models.contract import EventBatch
from contig.streaming.schedule import schedule
from contig.streaming.walker import replay
from contig.tasks.link import link_report
from contig.tasks.link_scoring import LinkScorer, evaluation_negatives, score_batch
from contig.tasks.metrics import LinkScores, link_metrics
from contig.tasks.results import LinkMetrics


@pytest.fixture
def stream() -> EventStream:
    return random_stream(2, events=60, num_nodes=11)


def drawn(stream: EventStream, count: int) -> Tensor:
    return torch.tensor(np.random.default_rng(1).integers(0, stream.num_nodes, (count, 1)))


# -- the walk -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_the_walk_against_a_loop_by_hand(name: str, stream: EventStream) -> None:
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
            ready = int(np.searchsorted(stream.t, stream.t[start]))  # events before this batch's time
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


def test_a_walk_in_two_parts_is_one_walk(stream: EventStream) -> None:
    """Where a cut parts neither a batch nor events of one time."""
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


def test_scoring_leaves_training_mode_and_weights_alone(stream: EventStream) -> None:
    """Dropout is off during an evaluation, whatever mode the model came in."""
    model, history = case("contig", shape_of(stream)), History.from_stream(stream)
    negative = drawn(stream, 60)
    calm = LinkScorer(model, model.new_state(11), history, 6)(np.arange(60), negative)
    busy = LinkScorer(model.train(), model.new_state(11), history, 6)(np.arange(60), negative)
    np.testing.assert_array_equal(np.stack(busy), np.stack(calm))


def test_nothing_to_score(stream: EventStream) -> None:
    model, history = case("contig", shape_of(stream)), History.from_stream(stream)
    state = model.new_state(11)
    state.position = 4
    found = LinkScorer(model, state, history, 6)(np.arange(0), torch.empty(0, 1, dtype=torch.int64))
    assert found.positive.shape == found.negative.shape == (0,)
    assert state.position == 4


def test_a_batch_s_true_destination_comes_first(stream: EventStream) -> None:
    model, history = case("edgebank", shape_of(stream)), History.from_stream(stream)
    at = torch.tensor([58, 59])
    batch = EventBatch.of(history, at)
    negative = torch.tensor([[0, 1, 2], [3, 4, 5]])
    logits = score_batch(model, model.new_state(11), history, batch, negative)
    met = {
        (int(s), int(d)) for s, d, t in zip(stream.src, stream.dst, stream.t, strict=True) if t < batch.t[0]
    }
    for i in range(2):
        asked = [int(batch.dst[i]), *negative[i].tolist()]
        assert logits[i].tolist() == [float((int(batch.src[i]), d) in met) for d in asked]


# -- negatives ----------------------------------------------------------------------------------------------


def test_an_evaluation_s_negatives_are_its_own(stream: EventStream) -> None:
    """The same every time, whatever was drawn before, and never a true event of that source and time."""
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


# -- the report ---------------------------------------------------------------------------------------------


def slow_selections(
    stream: EventStream, split: Split, events: NDArray[np.int64], holdout: Holdout
) -> dict[str, list[int]]:
    """Which rows count for what, decided event by event."""
    names = ("transductive", "inductive", "old_old", "new_old", "new_new")
    chosen: dict[str, list[int]] = {name: [] for name in names}
    trained = {int(v) for i in split.train for v in (stream.src[i], stream.dst[i])}
    for row, event in enumerate(events):
        new = sum(int(v) not in trained for v in (stream.src[event], stream.dst[event]))
        chosen[("old_old", "new_old", "new_new")[new]].append(row)
        if new:
            chosen["inductive"].append(row)
        if holdout == "tgn" or not new:
            chosen["transductive"].append(row)
    return chosen


@pytest.mark.parametrize("holdout", HOLDOUTS)
@pytest.mark.parametrize("batch_size", [3, 200])
def test_the_report_against_a_slow_loop(holdout: Holdout, batch_size: int) -> None:
    rng = np.random.default_rng(0)
    stream = random_stream(5, events=160, num_nodes=300)
    split = chronological_split(stream, holdout=holdout, hidden=0.2, seed=1)
    scores = LinkScores(
        rng.normal(0.5, 1, len(split.test)).astype(np.float32),
        rng.normal(0, 1, len(split.test)).astype(np.float32),
    )
    found = link_report(stream, split, split.test, scores, batch_size)
    rows = slow_selections(stream, split, split.test, holdout)
    assert {name: len(r) for name, r in rows.items()} == {n: m.events for n, m in found.each().items()}
    assert min(len(r) for r in rows.values()) > 0  # every selection is put to the test
    for name, r in rows.items():
        assert found.each()[name] == link_metrics(scores.positive[r], scores.negative[r], batch_size), name
    assert (found.transductive == found.old_old) is (holdout == "paper")


@pytest.mark.parametrize("holdout", HOLDOUTS)
def test_a_model_that_knows_no_new_nodes_is_not_measured_on_them(holdout: Holdout) -> None:
    """Their events are counted; transductive are those between known nodes, whatever the rule."""
    rng = np.random.default_rng(1)
    stream = random_stream(5, events=160, num_nodes=300)
    split = chronological_split(stream, holdout=holdout, hidden=0.2, seed=1)
    scores = LinkScores(*rng.normal(size=(2, len(split.test))).astype(np.float32))
    found = link_report(stream, split, split.test, scores, 7, inductive=False)
    rows = slow_selections(stream, split, split.test, "paper")
    for name in ("inductive", "new_old", "new_new"):
        assert found.each()[name] == LinkMetrics(events=len(rows[name]))
        assert rows[name]
    known = rows["old_old"]
    expected = link_metrics(scores.positive[known], scores.negative[known], 7)
    assert found.transductive == found.old_old == expected


def test_a_report_of_no_new_nodes_says_so(stream: EventStream) -> None:
    split = chronological_split(stream, holdout="paper")
    split.new_nodes[:] = False
    ones = np.ones(len(split.test), np.float32)
    found = link_report(stream, split, split.test, LinkScores(ones, 0 * ones), 10)
    assert found.inductive == found.new_new == LinkMetrics(events=0)
    assert found.transductive.ap == 1.0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scores_that_are_no_numbers_are_told_with_their_event(stream: EventStream, bad: float) -> None:
    """States that grew out of bounds: a sorting by such scores would mean nothing."""
    split = chronological_split(stream)
    scores = LinkScores(*np.zeros((2, len(split.test)), np.float32))
    scores.negative[3:5] = bad
    with pytest.raises(RunError, match=rf"scores of 2 events.*event {split.test[3]}\b.*state_norm"):
        link_report(stream, split, split.test, scores, 10)


def test_the_schedule_of_the_walk_is_the_stream_s(stream: EventStream) -> None:
    """The fixture has ties across the borders of batches, or the walk's tests would show little."""
    assert any(step.observe_to < step.stop for step in schedule(stream.t[31:], 4)[:-1])
