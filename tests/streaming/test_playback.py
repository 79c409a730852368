"""Past states against fresh replays and plain loops, at every time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.ledger import NODES, Ledger, accounts_after, batches_of, stream_at

from contig.history import History
from contig.streaming import snapshots
from contig.streaming.batches import StreamBatches
from contig.streaming.playback import Playback
from contig.streaming.walker import replay


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=24).map(sorted),
    st.integers(1, 7),
    st.randoms(use_true_random=False),
)
def test_a_playback_is_a_fresh_replay_up_to_any_time(times: list[int], size: int, random: Any) -> None:
    """At and between all times, before the first and after the last: ascending, descending and shuffled."""
    stream = stream_at(times)
    history = History.from_stream(stream)
    moments = [when / 2 for when in range(-2, 2 * times[-1] + 4)]
    expected = {}
    for when in moments:
        before = [e for e, t in enumerate(times) if t < when]
        model = Ledger()
        fresh = model.new_state(NODES)
        replay(model, fresh, history, np.array(before, dtype=np.int64), size)
        by_hand = accounts_after(stream, [ready for _, ready in batches_of(stream, before, size)])
        assert fresh["account"].tolist() == by_hand
        expected[when] = (by_hand, len(before))
    playback = Playback(Ledger(), StreamBatches(history, size))
    for order in (moments, moments[::-1], random.sample(moments, len(moments))):
        for when in order:
            with playback.at(torch.tensor(when, dtype=torch.float64)) as found:
                assert (found["account"].tolist(), found.position) == expected[when], when


def observed_at(playback: Playback, model: Ledger, *times: int) -> list[list[int]]:
    """The batches of events that a playback observes for these times, one after the other."""
    model.log.clear()
    for when in times:
        with playback.at(torch.tensor(when)):
            pass
    return [events for _, events in model.log]


def test_going_forward_observes_each_batch_once() -> None:
    """Only the part of a batch before a requested time is observed again later."""
    model = Ledger()
    playback = Playback(model, StreamBatches(History.from_stream(stream_at(range(11))), 3))
    batches = [[0], [0, 1], [0, 1, 2], [3], [3, 4, 5], [6, 7, 8]]
    assert observed_at(playback, model, 1, 2, 4, 9, 9) == batches


def test_going_back_continues_from_a_snapshot() -> None:
    model = Ledger()
    playback = Playback(model, StreamBatches(History.from_stream(stream_at(range(300))), 2))
    playback._snapshots.distance = 10
    assert len(observed_at(playback, model, 250)) == 125
    for when in (249, 200, 61, 21, 20, 19, 3):
        start = when // 20 * 20
        expected = [[e, e + 1] if e + 1 < when else [e] for e in range(start, when, 2)]
        assert observed_at(playback, model, when) == expected
    assert len(observed_at(playback, model, 299)) == 30  # from the last snapshot, after 240 events


@pytest.mark.parametrize("limit", ["count", "bytes"])
def test_snapshots_stay_within_their_memory(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Merged snapshots are those of a longer distance."""
    if limit == "count":
        monkeypatch.setattr(snapshots, "COUNT", 3)
    history = History.from_stream(stream_at(range(200)))
    playback = Playback(Ledger(), StreamBatches(history, 2))
    playback._snapshots.distance = 1
    if limit == "bytes":
        playback._snapshots.max_bytes = 800
    for when in (*range(0, 200, 9), *range(3, 200, 17)):
        fresh = Ledger().new_state(NODES)
        before = np.arange(int((history.events["t"] < when).sum()))
        replay(Ledger(), fresh, history, before, 2)
        with playback.at(torch.tensor(when)) as found:
            assert torch.equal(found["account"], fresh["account"])
    kept = playback._snapshots.up_to(200)
    assert 2 <= len(kept) <= (6 if limit == "count" else 99)
    assert playback._snapshots.nbytes() <= (10**9 if limit == "count" else 800)
    assert playback._snapshots.distance > 1


def test_threads_do_not_see_each_others_times() -> None:
    """Each of several threads jumps through the stream, while snapshots are added."""
    stream = stream_at(range(400))
    history = History.from_stream(stream)
    playback = Playback(Ledger(), StreamBatches(history, 7))
    expected = {}
    for when in range(0, 401, 40):
        state = Ledger().new_state(NODES)
        replay(Ledger(), state, history, np.arange(when), 7)
        expected[when] = state["account"].tolist()

    def jump(seed: int) -> bool:
        times = np.random.default_rng(seed).choice(list(expected), 25).tolist()
        same = []
        for when in times:
            with playback.at(torch.tensor(when)) as found:
                same.append((found["account"].tolist(), found.position) == (expected[when], when))
        return all(same)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(jump, range(4))) == [True] * 4
