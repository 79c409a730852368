"""Past states against fresh replays and plain loops, at every time."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.ledger import NODES, Ledger, accounts_after, batches_of, stream_at

from contig.history import History
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
    playback = Playback(Ledger(), history, NODES, size)
    for order in (moments, moments[::-1], random.sample(moments, len(moments))):
        for when in order:
            found = playback.at(torch.tensor(when, dtype=torch.float64))
            assert (found["account"].tolist(), found.position) == expected[when], when


def test_going_forward_observes_each_batch_once() -> None:
    """Only the part of a batch before a requested time is observed again later."""
    model = Ledger()
    playback = Playback(model, History.from_stream(stream_at(range(9))), NODES, 3)
    for when in (1, 2, 4, 9, 9):
        playback.at(torch.tensor(when))
    assert [events for _, events in model.log] == [[0], [0, 1], [0, 1, 2], [3], [3, 4, 5], [6, 7, 8]]
    model.log.clear()
    playback.at(torch.tensor(3))  # an earlier time starts again
    assert [events for _, events in model.log] == [[0, 1, 2]]
