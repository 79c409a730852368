"""Appending events: the result equals a history built at once, and costs amortized O(1) per event."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.histories import (
    NODES,
    Event,
    assert_same,
    entries,
    event_lists,
    every_query,
    past,
    random_stream,
    reference,
    rows_of,
    stream_of,
    tensors,
)

from contig.history import History, index
from contig.kernels.dispatch import disabled


@pytest.mark.parametrize("compiled", [True, False])
@settings(deadline=None)
@given(st.data(), event_lists(min_size=1, max_size=40), st.booleans())
def test_appended_equals_built_at_once(
    compiled: bool, data: st.DataObject, events: list[Event], float_times: bool
) -> None:
    with nullcontext() if compiled else disabled():
        grown = grown_in_parts(data, events, float_times)
        whole = History.from_stream(stream_of(events, float_times=float_times))
        assert grown.num_events == len(events)
        for name in ("src", "dst", "t"):
            assert torch.equal(grown.events[name], whole.events[name])
        nodes, times = every_query(NODES, events[-1][2])
        assert_same(grown.before(nodes, times, 6), whole.before(nodes, times, 6))
        expected = [past(events, v, t)[:6] for v, t in zip(nodes.tolist(), times.tolist(), strict=True)]
        assert entries(reference(grown, nodes, times, 6)) == expected


def grown_in_parts(data: st.DataObject, events: list[Event], float_times: bool) -> History:
    """Build the history of a prefix, and append the rest in parts of random sizes."""
    prefix = data.draw(st.integers(0, len(events)))
    dtype = torch.float64 if float_times else torch.int64
    if prefix:
        known = 1 + max(max(s, d) for s, d, _ in events[:prefix])
        grown = History.from_stream(stream_of(events[:prefix], known, float_times=float_times))
    else:
        grown = History.empty(time_dtype=dtype)
    at = prefix
    while at < len(events):
        size = data.draw(st.integers(1, 9))
        grown.append(*tensors(events[at : at + size], dtype))
        at += size
    return grown


def test_features_stay_with_their_events() -> None:
    stream = random_stream(np.random.default_rng(5), events=37, num_nodes=9, width=4)
    history = History.from_stream(stream[:11])
    for low, high in [(11, 12), (12, 30), (30, 37)]:
        history.append(*rows_of(stream[low:high]))
    assert np.array_equal(history.events["features"].numpy(), stream.edge_features)


def test_event_positions_widen_before_they_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "MAX_INT32_EVENTS", 4)
    events: list[Event] = [(0, 1, t) for t in range(6)]
    history = History.from_stream(stream_of(events[:2]))
    history.append(*tensors(events[2:3]))  # segments move and have spare capacity
    query = torch.tensor([0]), torch.tensor([9])
    assert history.segments.entry_event.dtype == torch.int32
    assert entries(history.before(*query, 9)) == [past(events[:3], 0, 9)]
    pool = len(history.segments.entry_event)
    history.append(*tensors(events[3:5]))
    assert len(history.segments.entry_event) == pool
    assert history.segments.entry_event.dtype == torch.int64
    assert entries(history.before(*query, 9)) == [past(events[:5], 0, 9)]
    assert entries(reference(history, *query, 9)) == [past(events[:5], 0, 9)]
    assert History.from_stream(stream_of(events)).segments.entry_event.dtype == torch.int64


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_grows_independently(copied: Callable[[History], History]) -> None:
    events: list[Event] = [(0, 1, t) for t in range(5)]
    history = History.from_stream(stream_of(events[:2]))
    history.append(*tensors(events[2:3]))  # with spare capacity, so that nothing moves later
    query = torch.tensor([0]), torch.tensor([9])
    history.before(*query, 9)
    other = copied(history)
    other.append(*tensors(events[3:]))
    assert entries(history.before(*query, 9)) == [past(events[:3], 0, 9)]
    assert entries(other.before(*query, 9)) == [past(events, 0, 9)]
    assert entries(reference(other, *query, 9)) == [past(events, 0, 9)]


def test_appending_nothing_changes_nothing() -> None:
    history = History.from_stream(stream_of([(0, 1, 5)]))
    none = torch.empty(0, dtype=torch.int64)
    history.append(none, none, none)
    assert (history.num_events, history.num_nodes) == (1, NODES)


def test_unknown_nodes_are_added() -> None:
    history = History.from_stream(stream_of([(0, 1, 5)], num_nodes=2))
    history.append(torch.tensor([7]), torch.tensor([1]), torch.tensor([6]))
    assert history.num_nodes == 8
    assert entries(history.before(torch.tensor([1, 7, 5]), torch.tensor([9, 9, 9]), 3)) == [
        [(7, 1, 6), (0, 0, 5)],
        [(1, 1, 6)],
        [],
    ]
    history.grow(12)
    assert history.num_nodes == 12
    history.grow(3)
    assert history.num_nodes == 12


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("hub", [True, False])
def test_each_entry_moves_a_bounded_number_of_times(hub: bool, compiled: bool) -> None:
    """Amortized O(1): what is copied or reserved stays proportional to the number of entries."""
    history = History.empty(time_dtype=torch.int64)
    index = history.segments
    copied = 0
    events = 300
    for i in range(events):
        starts, lengths = index.start.clone(), index.length.clone()
        pool, rows, nodes = index.entry_event.data_ptr(), index.start.data_ptr(), history.num_nodes
        used = index.used
        src = 0 if hub else i  # one node that meets every other, or nodes that meet once
        with nullcontext() if compiled else disabled():
            history.append(torch.tensor([src]), torch.tensor([i + 1]), torch.tensor([i]))
        moved = index.start[: len(starts)] != starts
        copied += int(lengths[moved].sum())
        copied += used if index.entry_event.data_ptr() != pool else 0
        copied += nodes if index.start.data_ptr() != rows else 0
    count = 2 * events
    assert copied <= 12 * count
    assert index.used <= 4 * count
    assert len(index.entry_event) <= 8 * count
    assert len(index.start) <= 2 * history.num_nodes
