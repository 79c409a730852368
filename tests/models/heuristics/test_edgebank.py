"""EdgeBank against a dictionary of the times of each pair."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.heuristics import EVENTS, NODES, NOW, WINDOWS, by_hand, rows, scores, some_times
from support.problems import Event, random_stream, shape_of, stream_of, tiny
from torch import Tensor

from contig.data.events import EventStream
from contig.history import History
from contig.models import Model


def remembered(events: list[Event], src: int, dst: int, t: float, window: float | None) -> float:
    """1 if the pair has an event, in this direction, before ``t`` and within the window."""
    times: dict[tuple[int, int], list[float]] = {}
    for a, b, when in events:
        times.setdefault((a, b), []).append(when)
    since = -np.inf if window is None else t - window
    return float(any(since <= when < t for when in times.get((src, dst), [])))


def bank(stream: EventStream, window: float | None) -> Model:
    return tiny("edgebank", shape_of(stream), window=window)


def expected(events: list[Event], times: Tensor, window: float | None) -> Tensor:
    return by_hand(lambda src, dst, t: remembered(events, src, dst, t, window), times)


@settings(max_examples=60, deadline=None)
@given(EVENTS, WINDOWS, st.booleans(), st.booleans())
def test_against_a_dictionary(
    events: list[Event], window: float | None, real_events: bool, real_queries: bool
) -> None:
    stream, times = stream_of(events, NODES, float_times=real_events), some_times(real_queries)
    found = scores(bank(stream, window), History.from_stream(stream), times)
    assert torch.equal(found, expected(events, times, window))


@pytest.mark.parametrize("window", [None, 10.0])
def test_an_event_counts_strictly_after_it_happened(window: float | None) -> None:
    stream = stream_of([(0, 1, NOW), (0, 1, NOW)], NODES)
    times = torch.tensor([NOW, NOW + 1, NOW + 10, NOW + 11])
    found = scores(bank(stream, window), History.from_stream(stream), times)
    assert found[:, 0, 1].tolist() == [0.0, 1.0, 1.0, 1.0 if window is None else 0.0]
    assert found[:, 1, 0].tolist() == [0.0] * 4  # the direction matters


def test_a_window_is_exact_at_unix_seconds() -> None:
    """In float32 Unix seconds are 128 apart: a window of 10.5 must be cut in float64."""
    events: list[Event] = [(0, 1, NOW), (1, 2, NOW + 3)]
    stream = stream_of(events, NODES)
    times = torch.arange(NOW + 1, NOW + 20)
    found = scores(bank(stream, 10.5), History.from_stream(stream), times)
    assert torch.equal(found, expected(events, times, 10.5))
    assert found[:, 0, 1].sum() == 10


def test_only_the_events_of_the_history_are_known() -> None:
    """A history of some events shares the columns of all, but must not know the others."""
    stream = random_stream(1, num_nodes=NODES, events=30)
    chosen = np.flatnonzero(np.arange(30) % 3 == 0)
    history = History.from_stream(stream).only(chosen)
    assert torch.equal(history.event_indices(), torch.from_numpy(chosen))
    times = torch.tensor([5, 20, 1000])
    for window in (None, 8.0):
        found = scores(bank(stream, window), history, times)
        assert torch.equal(found, expected([rows(stream)[i] for i in chosen], times, window))


def test_the_index_follows_a_growing_history_and_a_change_of_history() -> None:
    """An index that is kept between calls is never used for another history."""
    stream = random_stream(2, num_nodes=NODES, events=12)
    events = rows(stream)
    model, history = bank(stream, None), History.empty(NODES, time_dtype=torch.int64)
    times = torch.tensor([100, 200])
    for i, (src, dst, t) in enumerate(events):
        assert torch.equal(scores(model, history, times), expected(events[:i], times, None))
        history.append(*(torch.tensor([x]) for x in (src, dst, t)))
    assert torch.equal(scores(model, history, times), expected(events, times, None))
    other = stream_of([(2, 3, 1)] * 12, NODES)  # as many events
    found = scores(model, History.from_stream(other), times)
    assert torch.equal(found, expected([(2, 3, 1)] * 12, times, None))


def test_an_empty_history_scores_0() -> None:
    found = scores(bank(random_stream(0), 5.0), History.empty(NODES), torch.tensor([3.0]).double())
    assert torch.equal(found, torch.zeros(1, NODES, NODES))
