"""The contract that every registered model keeps: reading changes nothing, observing is all that does."""

from __future__ import annotations

import io
import itertools
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
import torch
from support.problems import (
    CASES,
    FROZEN,
    TELLS_APART,
    batch_of,
    case,
    embeds,
    query_times,
    random_stream,
    run_over,
    shape_of,
    snapshot,
    stream_of,
)
from torch import Tensor

from contig.data.events import EventStream
from contig.history import History
from contig.layers.unique import distinct
from contig.models import MODELS, DataShape, EventBatch, Model, NodeState
from contig.streaming.playback import Playback
from contig.streaming.schedule import schedule
from contig.streaming.walker import replay

EMBEDDING = [name for name in CASES if embeds(case(name, DataShape(0, None)))]


@pytest.fixture
def stream() -> EventStream:
    return random_stream(1, events=33)


def answers(model: Model, state: NodeState, history: History) -> list[Tensor]:
    """Everything a model can be asked after a stream: links of all pairs, and embeddings."""
    nodes = torch.arange(state.num_nodes)
    times, as_of = query_times(history, len(nodes))
    with torch.no_grad():
        found = [model.link(state, history, nodes, nodes.repeat(len(nodes), 1), times, as_of)]
        if embeds(model):
            found.append(model.embed(state, history, nodes, times, as_of))
    return found


def assert_same(a: list[Tensor], b: list[Tensor]) -> None:
    assert len(a) == len(b)
    assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def content(history: History) -> dict[str, Tensor]:
    return {name: array.clone() for name, array in history._arrays().items()}


# -- the registry ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_every_built_in_model_is_a_case(name: str) -> None:
    assert name in CASES


@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_learns_has_something_to_learn(name: str) -> None:
    model = case(name, shape_of(random_stream(0)))
    assert any(p.requires_grad for p in model.parameters()) is model.learns


# -- reading ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_asking_twice_is_asking_once(name: str, stream: EventStream) -> None:
    """The same answer, and nothing else changed: state, history, weights, random generators."""
    model = case(name, shape_of(stream))
    state, history = run_over(model, stream, 5)
    rows, columns = snapshot(state), content(history)
    weights = {k: v.clone() for k, v in model.state_dict().items()}
    torch_luck, numpy_luck = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002

    assert_same(answers(model, state, history), answers(model, state, history))

    assert all(torch.equal(state[k], v) for k, v in rows.items())
    assert all(torch.equal(a, columns[k]) for k, a in history._arrays().items())
    assert all(torch.equal(model.state_dict()[k], v) for k, v in weights.items())
    assert torch.equal(torch.get_rng_state(), torch_luck)
    assert np.array_equal(np.random.get_state()[1], numpy_luck)  # noqa: NPY002


@pytest.mark.parametrize("name", EMBEDDING)
def test_a_link_is_the_score_of_two_embeddings(name: str, stream: EventStream) -> None:
    model = case(name, shape_of(stream))
    state, history = run_over(model, stream, 5)
    src, dst = torch.tensor([3, 0]), torch.tensor([[1, 2, 3], [5, 0, 1]])
    times, as_of = query_times(history, 2)
    found = model.link(state, history, src, dst, times, as_of)
    # asked in one call, so that a model whose queries share a graph gets the same ones
    nodes = torch.tensor([3, 0, 1, 2, 3, 5, 0, 1])
    when = times[torch.tensor([0, 1, 0, 0, 0, 1, 1, 1])]
    embedded = model.embed(state, history, nodes, when, as_of)
    for i, j in itertools.product(range(2), range(3)):
        expected = model.score(embedded[i], embedded[2 + 3 * i + j])
        torch.testing.assert_close(found[i, j], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_the_order_of_the_queries_does_not_matter(name: str, stream: EventStream) -> None:
    model = case(name, shape_of(stream))
    state, history = run_over(model, stream, 5)
    src, dst = torch.tensor([3, 0, 3, 8]), torch.tensor([[1, 2], [5, 0], [1, 2], [4, 4]])
    times, as_of = query_times(history, 4)
    order = torch.tensor([2, 0, 3, 1])
    found = model.link(state, history, src, dst, times, as_of)
    other = model.link(state, history, src[order], dst[order], times[order], as_of)
    torch.testing.assert_close(other, found[order], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_asking_about_nobody_is_answered_with_nothing(name: str, stream: EventStream) -> None:
    model = case(name, shape_of(stream))
    state, history = run_over(model, stream, 5)
    none = torch.empty(0, dtype=torch.int64)
    found = model.link(state, history, none, none.view(0, 2), none, torch.tensor(100))
    assert found.shape == (0, 2)


@pytest.mark.parametrize("name", CASES)
def test_before_anything_has_happened(name: str) -> None:
    """A model answers on an empty history, and unless it has codes it cannot tell one pair from another."""
    model = case(name, shape_of(random_stream(0)))
    history, state = History.empty(4, edge_width=3), model.new_state(4)
    src, dst = torch.tensor([0, 1]), torch.tensor([[2, 3, 1], [3, 0, 2]])
    times = torch.tensor([5.0, 5.0], dtype=torch.float64)
    found = model.link(state, history, src, dst, times, times[0])
    assert bool(torch.isfinite(found).all())
    assert torch.allclose(found, found[0, 0].expand_as(found)) is (name not in TELLS_APART)


# -- observing ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_observing_changes_the_state_alone(name: str, stream: EventStream) -> None:
    model = case(name, shape_of(stream))
    history, state = History.from_stream(stream), model.new_state(stream.num_nodes)
    columns, weights = content(history), {k: v.clone() for k, v in model.state_dict().items()}
    rows = snapshot(state)
    for first, last in ((0, 3), (3, 6), (6, 9)):  # what tells of the event before the last needs several
        model.observe(state, history, batch_of(history, first, last))
    assert all(torch.equal(a, columns[k]) for k, a in history._arrays().items())
    assert all(torch.equal(model.state_dict()[k], v) for k, v in weights.items())
    assert not any(x.requires_grad for x in state.rows.values())
    assert all(not torch.equal(state[k], v) for k, v in rows.items())


@pytest.mark.parametrize("name", CASES)
def test_observing_nothing_changes_nothing(name: str, stream: EventStream) -> None:
    model = case(name, shape_of(stream))
    state, history = run_over(model, stream, 5)
    rows = snapshot(state)
    model.observe(state, history, batch_of(history, 3, 3))
    assert all(torch.equal(state[k], v) for k, v in rows.items())


@pytest.mark.parametrize("name", CASES)
def test_training_mode_does_not_reach_the_state(name: str, stream: EventStream) -> None:
    """Dropout would make the state depend on luck: what is observed is the same in both modes."""
    model = case(name, shape_of(stream))
    calm, _ = run_over(model, stream, 5)
    busy, _ = run_over(model.train(), stream, 5)
    assert all(torch.equal(busy[k], v) for k, v in calm.rows.items())


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_a_replay_is_the_walk_without_its_scores(name: str, batch_size: int, stream: EventStream) -> None:
    model = case(name, shape_of(stream))
    expected, history = run_over(model, stream, batch_size)
    state, seen = model.new_state(stream.num_nodes), []
    replay(model.train(), state, history, np.arange(len(stream)), batch_size, seen.append)
    assert all(torch.equal(state[k], v) for k, v in expected.rows.items())
    assert state.position == sum(seen) == len(stream)
    assert not model.training


@pytest.mark.parametrize("name", CASES)
def test_a_replay_of_some_events_takes_no_others_in(name: str, stream: EventStream) -> None:
    model = case(name, shape_of(stream))
    chosen = np.flatnonzero(np.arange(len(stream)) % 3 != 1)
    history = History.from_stream(stream)
    state = model.new_state(stream.num_nodes)
    replay(model, state, history, chosen, 4)
    by_hand = model.new_state(stream.num_nodes)
    at = torch.from_numpy(chosen)
    for step in schedule(stream.t[chosen], 4):
        model.observe(by_hand, history, EventBatch.of(history, at[step.observe_from : step.observe_to]))
    assert all(torch.equal(state[k], v) for k, v in by_hand.rows.items())
    assert state.position == chosen[-1] + 1


def test_a_replay_of_nothing(stream: EventStream) -> None:
    model = case(MODELS[0], shape_of(stream))
    state, history = run_over(model, stream, 5)
    state.position, rows = 7, snapshot(state)
    replay(model, state, history, np.arange(0), 5)
    assert state.position == 7
    assert all(torch.equal(state[k], v) for k, v in rows.items())


# -- the state of a stream at any time ----------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_a_playback_knows_what_lies_strictly_before(name: str, stream: EventStream) -> None:
    """Whole batches are observed as such, then the rest up to the time; earlier questions do not matter."""
    model, history = case(name, shape_of(stream)), History.from_stream(stream)
    playback = Playback(model, history, stream.num_nodes, 4)
    last = int(stream.t[-1])
    for when in sorted([0, *np.unique(stream.t)[3:9].tolist(), 12.5, 20.5, last, last + 1]):
        end = int((stream.t < when).sum())
        expected, done = model.new_state(stream.num_nodes), 0
        stops = [step.observe_to for step in schedule(stream.t, 4) if step.observe_to <= end]
        for stop in [*stops, end]:
            model.observe(expected, history, batch_of(history, done, stop))
            done = stop
        for time in (torch.tensor(when), torch.tensor(when).double()):
            found = playback.at(time)
            assert found.position == end
            assert all(torch.equal(found[k], v) for k, v in expected.rows.items())


def test_a_playback_of_real_times_takes_whole_ones(stream: EventStream) -> None:
    model = case(MODELS[0], shape_of(stream))
    history = History.from_stream(replace(stream, t=stream.t + 0.5))
    playback = Playback(model, history, stream.num_nodes, 4)
    assert playback.at(torch.tensor(21)).position == int((stream.t + 0.5 < 21).sum())


@pytest.mark.parametrize("name", CASES)
def test_a_playback_goes_back_as_if_nothing_had_been_asked(name: str, stream: EventStream) -> None:
    model, history = case(name, shape_of(stream)), History.from_stream(stream)
    playback = Playback(model, history, stream.num_nodes, 4)
    for when in (int(stream.t[-1]), int(stream.t[9]), 1, int(stream.t[-2]), 12.5):
        fresh = Playback(model, history, stream.num_nodes, 4).at(torch.tensor(when))
        found = playback.at(torch.tensor(when))
        assert found.position == fresh.position == int((stream.t < when).sum())
        assert all(torch.equal(found[k], v) for k, v in fresh.rows.items())


# -- one event at a time ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_streaming_is_batches_of_one(name: str, stream: EventStream) -> None:
    """Events that arrive one by one, into a history that grows, are scored as in batches of one.

    An event is kept back from the state until time has moved on: events of one time do not know
    each other, however they are ordered.
    """
    model = case(name, shape_of(stream))
    whole, state = History.from_stream(stream), model.new_state(stream.num_nodes)
    candidates = torch.tensor(np.random.default_rng(0).integers(0, stream.num_nodes, (len(stream), 3)))
    expected = []
    for step in schedule(stream.t, 1):
        batch = batch_of(whole, step.start, step.stop)
        ask = candidates[step.start : step.stop]
        expected.append(model.link(state, whole, batch.src, ask, batch.t, batch.t[0]))
        model.observe(state, whole, batch_of(whole, step.observe_from, step.observe_to))

    live, history, waiting = model.new_state(stream.num_nodes), empty_like(stream), 0
    for i in range(len(stream)):
        src, dst, t = (torch.tensor(column[i : i + 1]) for column in (stream.src, stream.dst, stream.t))
        if i and int(t) > int(stream.t[i - 1]):
            model.observe(live, history, batch_of(history, waiting, i))
            waiting = i
        found = model.link(live, history, src, candidates[i : i + 1], t, t[0])
        torch.testing.assert_close(found, expected[i], rtol=0, atol=0)
        assert stream.edge_features is not None
        history.append(src, dst, t, torch.tensor(stream.edge_features[i : i + 1]))
    model.observe(live, history, batch_of(history, waiting, len(stream)))
    assert all(torch.equal(live[k], v) for k, v in state.rows.items())


def empty_like(stream: EventStream) -> History:
    return History.empty(stream.num_nodes, edge_width=stream.edge_width, time_dtype=torch.int64)


# -- keeping and growing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_state_and_weights_survive_saving_bit_for_bit(name: str, stream: EventStream) -> None:
    model = case(name, shape_of(stream))
    state, history = run_over(model, stream[:20], 5)
    kept = io.BytesIO()
    torch.save({"rows": state.rows, "weights": model.state_dict()}, kept)
    kept.seek(0)
    loaded: Mapping[str, Mapping[str, Tensor]] = torch.load(kept, weights_only=True)

    twin = case(name, shape_of(stream))
    for p in twin.parameters():
        torch.nn.init.zeros_(p)
    twin.load_state_dict(dict(loaded["weights"]))
    again = twin.new_state(stream.num_nodes)
    for k, rows in loaded["rows"].items():
        again[k].copy_(rows)
    history = History.from_stream(stream)
    for start in (20, 26):  # carried on, both stay the same
        for one, memory in ((model, state), (twin, again)):
            one.observe(memory, history, batch_of(history, start, start + 6))
    assert all(torch.equal(again[k], v) for k, v in state.rows.items())
    assert_same(answers(twin, again, history), answers(model, state, history))


@pytest.mark.parametrize("name", CASES)
def test_new_nodes_are_like_any_blank_node_and_change_no_other(name: str) -> None:
    """Node 8 is in the stream's numbering, but nothing happens to it; 9 to 11 come later."""
    stream = random_stream(2, events=30, num_nodes=8)
    blank, last = 8, 11
    model = case(name, shape_of(stream))
    history, state = History.from_stream(stream), model.new_state(9)
    history.grow(9)
    replay(model, state, history, np.arange(30), 4)
    nodes = torch.arange(9)
    times, as_of = query_times(history, 9)
    dst = torch.stack([nodes, nodes.flip(0)], dim=1)
    before = model.link(state, history, nodes, dst, times, as_of)

    state.grow(last + 1)
    history.grow(last + 1)
    after = model.link(state, history, nodes, dst, times, as_of)
    torch.testing.assert_close(after, before, rtol=1e-5, atol=1e-6)
    time = times[:1]
    scores = [
        model.link(state, history, torch.tensor([new]), torch.tensor([[3, 4, 0]]), time, time[0])
        for new in (blank, last)
    ]
    assert bool(torch.isfinite(scores[1]).all())
    if name in TELLS_APART:
        return
    torch.testing.assert_close(scores[1], scores[0], rtol=1e-5, atol=1e-6)
    if embeds(model):
        both = model.embed(state, history, torch.tensor([blank, last]), time.repeat(2), time[0])
        torch.testing.assert_close(both[0], both[1], rtol=1e-5, atol=1e-6)
        assert not torch.allclose(both[0], model.embed(state, history, nodes[:1], time, time[0])[0])


@pytest.mark.parametrize("name", CASES)
def test_a_new_node_takes_part_from_its_first_event_on(name: str) -> None:
    stream = stream_of([(0, 1, 3), (1, 2, 4)], 3)
    model = case(name, shape_of(stream))
    state, history = run_over(model, stream, 1)
    newcomer, now = torch.tensor([5]), torch.tensor([6])
    state.grow(6)
    history.append(newcomer, torch.tensor([1]), now)
    before = model.link(state, history, newcomer, torch.tensor([[1, 2]]), now, now[0])
    model.observe(state, history, batch_of(history, 2, 3))
    after = model.link(state, history, newcomer, torch.tensor([[1, 2]]), now + 1, now[0] + 1)
    assert bool(torch.isfinite(after).all())
    assert torch.equal(before[0, 0], after[0, 0]) is (name in FROZEN)


# -- the shared helper ---------------------------------------------------------------------------------------


def test_distinct_is_unique() -> None:
    ids = torch.tensor([4, 1, 4, 0, 6, 1])
    found, place = distinct(ids, 8)
    expected, where = torch.unique(ids, return_inverse=True)
    assert torch.equal(found, expected)
    assert torch.equal(place, where)


def test_an_event_batch_is_read_from_the_columns(stream: EventStream) -> None:
    at = torch.tensor([4, 2, 9])
    batch = EventBatch.of(History.from_stream(stream), at)
    for column, array in ((batch.src, stream.src), (batch.dst, stream.dst), (batch.t, stream.t)):
        np.testing.assert_array_equal(column.numpy(), array[at.numpy()])
    assert torch.equal(batch.event, at)
