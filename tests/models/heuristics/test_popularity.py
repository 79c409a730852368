"""Popularity against a dictionary of the times of each node."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.heuristics import EVENTS, NODES, NOW, WINDOWS, Expected, by_hand, rows, scores, some_times
from support.problems import Event, random_stream, shape_of, stream_of, tiny

from contig.data.events import EventStream
from contig.history import History
from contig.models import Model


def popularity(stream: EventStream, window: float | None) -> Model:
    return tiny("popularity", shape_of(stream), window=window)


def counted(events: list[Event], window: float | None) -> Expected:
    """The number of a destination's events before ``t`` and within the window; a self-loop counts once."""
    times: dict[int, list[float]] = {v: [] for v in range(NODES)}
    for a, b, when in events:
        for v in {a, b}:
            times[v].append(when)

    def score(_src: int, dst: int, t: float) -> float:
        since = -np.inf if window is None else t - window
        return float(sum(since <= when < t for when in times[dst]))

    return score


@settings(max_examples=60, deadline=None)
@given(EVENTS, WINDOWS, st.booleans(), st.booleans())
def test_against_a_dictionary(
    events: list[Event], window: float | None, real_events: bool, real_queries: bool
) -> None:
    stream, times = stream_of(events, NODES, float_times=real_events), some_times(real_queries)
    found = scores(popularity(stream, window), History.from_stream(stream), times)
    assert torch.equal(found, by_hand(counted(events, window), times))


def test_an_event_counts_for_both_ends_strictly_after_it_happened() -> None:
    """Two events share a time, and one is a self-loop."""
    stream = stream_of([(0, 1, NOW), (2, 1, NOW), (1, 1, NOW + 2)], NODES)
    found = scores(popularity(stream, None), History.from_stream(stream), torch.arange(NOW, NOW + 4))
    assert found[:, 4].tolist() == [[0, 0, 0, 0, 0], [1, 2, 1, 0, 0], [1, 2, 1, 0, 0], [1, 3, 1, 0, 0]]
    assert torch.equal(found, found[:, :1].expand_as(found))  # for every source


def test_a_window_is_exact_at_unix_seconds() -> None:
    stream = stream_of([(0, 1, NOW), (1, 2, NOW + 3)], NODES)
    times = torch.arange(NOW + 1, NOW + 20)
    found = scores(popularity(stream, 10.5), History.from_stream(stream), times)
    assert torch.equal(found, by_hand(counted(rows(stream), 10.5), times))
    assert found[:, 0, 1].tolist() == [1] * 3 + [2] * 7 + [1] * 3 + [0] * 6


def test_a_window_is_exact_at_unix_nanoseconds() -> None:
    """In float64 they are 256 apart."""
    now = NOW * 10**9
    stream = stream_of([(0, 1, now), (1, 2, now + 3)], NODES)
    times = torch.arange(now + 1, now + 20)
    found = scores(popularity(stream, 10.5), History.from_stream(stream), times)
    assert found[:, 0, 1].tolist() == [1] * 3 + [2] * 7 + [1] * 3 + [0] * 6


@pytest.mark.parametrize("window", [None, 8.0])
def test_only_the_events_of_the_history_are_known(window: float | None) -> None:
    stream = random_stream(1, num_nodes=NODES, events=30)
    chosen = np.flatnonzero(np.arange(30) % 3 == 0)
    history, times = History.from_stream(stream).only(chosen), torch.tensor([5, 20, 1000])
    found = scores(popularity(stream, window), history, times)
    assert torch.equal(found, by_hand(counted([rows(stream)[i] for i in chosen], window), times))


def test_a_growing_history_is_counted_anew() -> None:
    stream = random_stream(2, num_nodes=NODES, events=12)
    model, history = popularity(stream, None), History.empty(NODES, time_dtype=torch.int64)
    times = torch.tensor([4, 200])
    for i, (src, dst, t) in enumerate(rows(stream)):
        assert torch.equal(scores(model, history, times), by_hand(counted(rows(stream)[:i], None), times))
        history.append(*(torch.tensor([x]) for x in (src, dst, t)))


def test_an_unseen_destination_scores_0() -> None:
    stream = stream_of([(0, 1, 2)], 2)
    model, history = popularity(stream, 3.0), History.from_stream(stream)
    src, time = torch.tensor([0]), torch.tensor([4])
    found = model.link(model.new_state(9), history, src, torch.tensor([[1, 8]]), time, time[0])
    assert found.tolist() == [[1.0, 0.0]]
