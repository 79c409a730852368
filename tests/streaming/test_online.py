"""A state that grows with its stream, against a replay of the whole stream."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.ledger import NODES, Ledger, stream_at
from support.problems import CASES, case, random_stream, shape_of

from contig.data.events import EventStream
from contig.errors import DataError, RunError
from contig.history import History
from contig.models import Model, NodeState
from contig.streaming.online import OnlineState, replay_stream
from contig.streaming.walker import replay


def columns(stream: EventStream, start: int, stop: int) -> list[Any]:
    found = [stream.src, stream.dst, stream.t, stream.edge_features]
    return [None if c is None else torch.from_numpy(c[start:stop].copy()) for c in found]


def after(model: Model, stream: EventStream, batch_size: int) -> tuple[NodeState, History]:
    """The state and the history of a whole stream."""
    history, state = History.from_stream(stream), model.new_state(stream.num_nodes)
    replay(model, state, history, np.arange(len(stream)), batch_size)
    return state, history


def online(model: Model, stream: EventStream, batch_size: int) -> OnlineState:
    state, history = after(model, stream, batch_size)
    return OnlineState(model, history, state, batch_size)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 9), min_size=2, max_size=30).map(sorted),
    st.integers(1, 7),
    st.data(),
)
def test_pieces_of_any_size_lead_to_the_same_state(times: list[int], size: int, data: Any) -> None:
    """Also where a tie, a batch or both are cut, and at every past time."""
    stream = stream_at(times)
    cuts = data.draw(st.lists(st.integers(1, len(times) - 1), min_size=1, max_size=5).map(sorted))
    grown = online(Ledger(), stream[: cuts[0]], size)
    for start, stop in itertools.pairwise([*cuts, len(times)]):
        grown.observe(*columns(stream, start, stop))
        expected, _ = after(Ledger(), stream[:stop], size)
        assert grown.state["account"].tolist() == expected["account"].tolist()
        assert grown.state.position == grown.history.num_events == stop
    for when in range(-1, times[-1] + 2):
        expected, _ = after(Ledger(), stream[: int(np.searchsorted(stream.t, when))], size)
        with grown.at(torch.tensor(when)) as found:
            assert found["account"].tolist() == expected["account"].tolist()


@pytest.mark.parametrize("name", CASES)
def test_late_events_change_no_state_and_no_answer_before_them(name: str) -> None:
    """Events at positions 15 to 35 arrive after all others; an answer at a time knows those before it."""
    stream, size = random_stream(3, events=60, num_nodes=9), 13
    missed = np.array([15, 18, 19, 26, 33, 35])
    model, kept = case(name, shape_of(stream)), np.setdiff1d(np.arange(60), missed)

    def grown(arrived: np.ndarray) -> OnlineState:
        rows = [None if c is None else c[kept] for c in columns(stream, 0, 60)]
        late = [None if c is None else c[arrived] for c in columns(stream, 0, 60)]
        history = History.empty(9, edge_width=stream.edge_width, time_dtype=rows[2].dtype)
        history.append(*rows)
        state = model.new_state(9)
        tip = replay_stream(model, state, history, size)
        before, found = state.clone(), OnlineState(model, history, state, size, tip=tip)
        found.observe(*late, late=torch.ones(len(arrived), dtype=torch.bool))
        # The last, incomplete batch is observed again, and some models read neighbors when they observe.
        untouched = np.setdiff1d(np.arange(9), found.tip.nodes.numpy())
        assert len(untouched)
        for name, row in before.rows.items():
            assert found.state[name][untouched].equal(row[untouched])
        return found

    everything = grown(missed)
    src, dst = torch.arange(9), torch.arange(9).flip(0).unsqueeze(1)
    for position in (18, 20, 34):
        when = torch.tensor(int(stream.t[position]))
        some = grown(missed[stream.t[missed] < stream.t[position]])
        found = []
        for one in (everything, some):
            with torch.no_grad(), one.at(when) as state:
                found.append(model.link(state, one.history, src, dst, when.repeat(9), when))
        torch.testing.assert_close(found[0], found[1], rtol=1e-6, atol=1e-6)


def test_new_events_are_observed_without_the_old_ones() -> None:
    """However long the stream is, an event costs its own batch."""
    stream, model = stream_at(range(500)), Ledger()
    grown = online(model, stream[:100], 9)
    grown.observe(*columns(stream, 100, 101))  # the batch before it was not saved with the state
    for event in range(101, 500):
        model.log.clear()
        grown.observe(*columns(stream, event, event + 1))
        seen = [e for _, events in model.log for e in events]
        assert len(seen) <= 2 * 9
        assert min(seen) >= event - 9


@pytest.mark.parametrize("grown", [False, True])
def test_a_saved_tip_spares_the_replay(grown: bool) -> None:
    stream, model = stream_at([0, 1, 2, 2, 2, 3, 4, 4, 5, 5, 5, 6]), Ledger()
    history = History.from_stream(stream[:8])
    if grown:
        first = online(model, stream[:5], 3)
        first.observe(*columns(stream, 5, 8))
        state, tip = first.state.clone(), first.tip
    else:
        state, seen = model.new_state(NODES), []
        tip = replay_stream(model, state, history, 3, seen.append)
        assert (seen, state.position) == ([3, 3, 2], 8)
    again = OnlineState(model, history, state, 3, tip=tip)
    model.log.clear()
    again.observe(*columns(stream, 8, 12))
    assert min(e for _, events in model.log for e in events) >= 5
    assert again.state["account"].tolist() == after(Ledger(), stream, 3)[0]["account"].tolist()


def test_refused_events_change_nothing() -> None:
    stream = stream_at(range(10))
    grown = online(Ledger(), stream, 3)
    before = grown.state["account"].tolist()
    for t, message in ((3, "times decrease"), (20, "two vectors of the same length")):
        dst = torch.tensor([1]) if t == 3 else torch.tensor([1, 2])
        with pytest.raises(DataError, match=message):
            grown.observe(torch.tensor([0]), dst, torch.tensor([t]))
    assert (grown.state["account"].tolist(), grown.history.num_events) == (before, 10)
    grown.observe(torch.tensor([0]), torch.tensor([1]), torch.tensor([20]))
    assert grown.history.num_events == 11


def test_a_failure_in_the_middle_is_not_hidden() -> None:
    class Failing(Ledger):
        def observe(self, *arguments: Any) -> None:
            raise KeyboardInterrupt

    stream = stream_at(range(10))
    grown = online(Ledger(), stream[:9], 3)
    grown.model = Failing()
    with pytest.raises(KeyboardInterrupt):
        grown.observe(*columns(stream, 9, 10))
    with pytest.raises(RunError, match="open the run again"), grown.at(torch.tensor(5)):
        pass
    with pytest.raises(RunError, match="open the run again"):
        grown.observe(*columns(stream, 9, 10))


def test_readers_see_whole_calls() -> None:
    """Three threads read now and the past while a fourth adds events in pieces of unequal sizes."""
    stream, size = stream_at(range(600)), 8
    cuts = [40, *sorted({*np.random.default_rng(0).integers(41, 600, 60).tolist()}), 600]
    known = {stop: after(Ledger(), stream[:stop], size)[0]["account"].tolist() for stop in cuts}
    past = after(Ledger(), stream[:33], size)[0]["account"].tolist()
    grown, done = online(Ledger(), stream[:40], size), threading.Event()

    def read(_: int) -> set[int]:
        seen = set()
        while True:
            last = done.is_set()
            with grown.reading():
                position, count = grown.state.position, grown.history.num_events
                assert position == count
                assert grown.state["account"].tolist() == known[count]
                with grown.at(torch.tensor(33)) as state:  # reading may be nested
                    assert state["account"].tolist() == past
            seen.add(count)
            if last:
                return seen

    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read, i) for i in range(3)]
        for start, stop in itertools.pairwise(cuts):
            grown.observe(*columns(stream, start, stop))
        done.set()
        assert all(600 in reader.result() for reader in readers)


def test_a_reader_cannot_become_a_writer() -> None:
    grown = online(Ledger(), stream_at(range(10)), 3)
    with grown.reading(), pytest.raises(RuntimeError, match="finish reading first"):
        grown.observe(torch.tensor([0]), torch.tensor([NODES - 1]), torch.tensor([20]))
