"""Replays and playbacks of a stream, for every model: the state at any past time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.problems import CASES, batch_of, case, random_stream, run_over, shape_of, snapshot

from contig.data.events import EventStream
from contig.history import History
from contig.models import MODELS, EventBatch
from contig.streaming.batches import StreamBatches
from contig.streaming.playback import Playback
from contig.streaming.schedule import schedule
from contig.streaming.walker import replay


@pytest.fixture
def stream() -> EventStream:
    return random_stream(1, events=33)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_a_replay_observes_as_a_walk_does(name: str, batch_size: int, stream: EventStream) -> None:
    model = case(name, shape_of(stream))
    expected, history = run_over(model, stream, batch_size)
    state, seen = model.new_state(stream.num_nodes), []
    replay(model.train(), state, history, np.arange(len(stream)), batch_size, seen.append)
    assert all(torch.equal(state[k], v) for k, v in expected.rows.items())
    assert state.position == sum(seen) == len(stream)
    assert not model.training


@pytest.mark.parametrize("name", CASES)
def test_a_replay_of_some_events_observes_no_others(name: str, stream: EventStream) -> None:
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


def test_a_replay_of_no_events(stream: EventStream) -> None:
    model = case(MODELS[0], shape_of(stream))
    state, history = run_over(model, stream, 5)
    state.position, rows = 7, snapshot(state)
    replay(model, state, history, np.arange(0), 5)
    assert state.position == 7
    assert all(torch.equal(state[k], v) for k, v in rows.items())


# -- the state of a stream at any time ----------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_a_playback_has_observed_what_lies_strictly_before(name: str, stream: EventStream) -> None:
    """It observes whole batches, then the rest up to the time; earlier calls do not matter."""
    model, history = case(name, shape_of(stream)), History.from_stream(stream)
    playback = Playback(model, StreamBatches(history, 4))
    last = int(stream.t[-1])
    for when in sorted([0, *np.unique(stream.t)[3:9].tolist(), 12.5, 20.5, last, last + 1]):
        end = int((stream.t < when).sum())
        expected, done = model.new_state(stream.num_nodes), 0
        stops = [step.observe_to for step in schedule(stream.t, 4) if step.observe_to <= end]
        for stop in [*stops, end]:
            model.observe(expected, history, batch_of(history, done, stop))
            done = stop
        for time in (torch.tensor(when), torch.tensor(when).double()):
            with playback.at(time) as found:
                assert found.position == end
                assert all(torch.equal(found[k], v) for k, v in expected.rows.items())


def test_a_playback_of_real_valued_times_accepts_integers(stream: EventStream) -> None:
    model = case(MODELS[0], shape_of(stream))
    history = History.from_stream(replace(stream, t=stream.t + 0.5))
    playback = Playback(model, StreamBatches(history, 4))
    with playback.at(torch.tensor(21)) as found:
        assert found.position == int((stream.t + 0.5 < 21).sum())


@pytest.mark.parametrize("name", CASES)
def test_a_playback_can_go_back(name: str, stream: EventStream) -> None:
    model, history = case(name, shape_of(stream)), History.from_stream(stream)
    playback = Playback(model, StreamBatches(history, 4))
    for when in (int(stream.t[-1]), int(stream.t[9]), 1, int(stream.t[-2]), 12.5):
        other = Playback(model, StreamBatches(history, 4))
        with other.at(torch.tensor(when)) as fresh, playback.at(torch.tensor(when)) as found:
            assert found.position == fresh.position == int((stream.t < when).sum())
            assert all(torch.equal(found[k], v) for k, v in fresh.rows.items())
