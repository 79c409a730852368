"""The scale of time against a plain loop over events, and under other units and origins."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.problems import random_stream, stream_of

from contig.data.events import EventStream
from contig.history import History, TimeScale


def positive_intervals(stream: EventStream, events: list[int]) -> list[float]:
    """Return the intervals between the events of each node, one event after the other."""
    last: dict[int, float] = {}
    found = []
    for i in events:
        t = stream.t[i].item()
        for node in {int(stream.src[i]), int(stream.dst[i])}:
            if t > last.get(node, t):
                found.append(t - last[node])
            last[node] = t
    return sorted(found)


@pytest.mark.parametrize("seed", range(3))
def test_percentiles_against_a_loop(seed: int) -> None:
    stream = random_stream(seed, events=70, num_nodes=11, start=1000)
    chosen = [e for e in range(3, 55) if e % 5]
    expected = positive_intervals(stream, chosen)
    scale = TimeScale.of(History.from_stream(stream).only(np.array(chosen)))
    assert scale.count == len(expected)
    assert scale.start == stream.t[3]
    for percent in (0, 2, 50, 80, 95, 100):
        assert scale.percentile(percent) == expected[percent * (len(expected) - 1) // 100]
        share = np.mean(np.array(expected) <= scale.percentile(percent))
        assert share >= percent / 100 - 1 / len(expected)


@pytest.mark.parametrize("factor", [1000, 10**9, 0.125])
@pytest.mark.parametrize("shift", [0, 10**9, -(10**9)])
def test_exact_under_other_units_and_origins(factor: float, shift: int) -> None:
    stream = random_stream(4, events=60, num_nodes=7)
    scale = TimeScale.of(History.from_stream(stream))
    other = TimeScale.of(History.from_stream(replace(stream, t=(stream.t + shift) * factor)))
    assert other.percentiles == tuple(factor * p for p in scale.percentiles)
    assert other.count == scale.count
    assert other.start == factor * (scale.start + shift)


def test_an_appended_history_is_measured_like_an_indexed_one() -> None:
    """Its segments have spare capacity and are not in the order of the nodes."""
    stream = random_stream(2, events=50, num_nodes=9)
    whole = History.from_stream(stream)
    grown = History.empty(edge_width=stream.edge_width, time_dtype=whole.events["t"].dtype)
    for i in range(50):
        grown.append(*(whole.events[name][i : i + 1] for name in ("src", "dst", "t", "features")))
    assert TimeScale.of(grown) == TimeScale.of(whole)


def test_without_a_node_that_has_two_times_the_stream_itself_is_the_scale() -> None:
    stream = stream_of([(0, 1, 10), (2, 3, 10), (4, 5, 13), (6, 7, 20)], 8)
    scale = TimeScale.of(History.from_stream(stream))
    assert scale.count == 0
    assert (scale.percentile(0), scale.percentile(50), scale.percentile(100)) == (3, 3, 7)


def test_without_two_times_the_unit_is_one() -> None:
    for events in ([(0, 1, 5), (0, 1, 5), (1, 2, 5)], [(0, 1, 5)]):
        scale = TimeScale.of(History.from_stream(stream_of(events, 3)))
        assert scale == TimeScale(start=5.0)
        assert scale.percentile(50) == 1
    assert TimeScale.of(History.empty(4)) == TimeScale()
