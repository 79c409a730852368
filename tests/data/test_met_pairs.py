"""Pairs that met before, against a Python loop over the events."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from contig.data.events import EventStream
from contig.data.ids import NodeIds
from contig.data.met_pairs import MetPairs

Event = tuple[int, int, int]
NODES = 5


@st.composite
def event_lists(draw: st.DrawFn) -> list[Event]:
    """A stream of few nodes, in which pairs meet often, also several times at once."""
    times = np.cumsum(draw(st.lists(st.sampled_from([0, 0, 1, 3]), min_size=1, max_size=25))).tolist()
    node = st.integers(0, NODES - 1)
    return [(draw(node), draw(node), t) for t in times]


@settings(deadline=None)
@given(event_lists(), st.data())
def test_each_pair_that_met_before_is_drawn_equally_often(events: list[Event], data: st.DataObject) -> None:
    meetings = sorted(data.draw(st.sets(st.sampled_from(range(len(events))), min_size=1)))
    src, dst, t = (np.array(column, dtype=np.int64) for column in zip(*events, strict=True))
    stream = EventStream(src, dst, t, NodeIds(np.arange(NODES)))
    pairs = MetPairs(stream, np.array(meetings), "cpu")
    for time in set(t[meetings].tolist()):
        trained = [events[i] for i in meetings]
        known = {(s, d) for s, d, when in trained if when < time}
        now = {(s, d) for s, d, when in trained if when == time}
        draws = 3 * max(len(known), 1)
        uniform = (torch.arange(draws, dtype=torch.float64) + 0.5) / draws
        found = pairs.draw(torch.full((draws,), time), uniform)
        drawn = list(zip(found.src.tolist(), found.dst.tolist(), strict=True))
        if known:
            assert sorted(drawn) == sorted(3 * list(known))
        assert found.usable.tolist() == [bool(known) and pair not in now for pair in drawn]
