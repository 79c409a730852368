"""Negative edges against the protocol written out with sets, block by block."""

from __future__ import annotations

from collections.abc import Callable
from math import isnan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from contig.data import negative_edges
from contig.data.events import EventStream
from contig.data.ids import NodeIds
from contig.data.negative_edges import NegativeEdges, sample_edges
from contig.errors import DataError

Edge = tuple[int, int]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(negative_edges, "BLOCK", 5)


def random_events(seed: int, events: int, sources: int = 6, destinations: int = 9) -> EventStream:
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, sources, events), sources - 2 + rng.integers(0, destinations, events)
    t = np.cumsum(rng.integers(0, 3, events))  # some equal times
    return EventStream(src, dst, t, NodeIds(np.arange(sources + destinations)))


def edges_of(stream: EventStream, at: np.ndarray) -> set[Edge]:
    return set(zip(stream.src[at].tolist(), stream.dst[at].tolist(), strict=True))


def candidates(
    stream: EventStream, events: np.ndarray, among: np.ndarray, block: np.ndarray, only_new: bool
) -> tuple[set[Edge], set[Edge]]:
    """The edges a block is sampled from, and the pairs that may fill it up, by the definitions."""
    start, end = stream.t[block[0]], stream.t[block[-1]]
    everything = np.arange(len(stream))
    now = edges_of(stream, everything[(stream.t >= start) & (stream.t <= end)])
    pool = edges_of(stream, among[stream.t[among] <= start]) - now
    if only_new:
        pool -= edges_of(stream, among[among < events[0]])
    grid = {(int(s), int(d)) for s in stream.src[among] for d in stream.dst[among]} - now
    return pool, grid


def sampled(edges: NegativeEdges, rows: slice, fallback: bool) -> list[Edge]:
    chosen = edges.fallback[rows] == fallback
    return list(zip(edges.src[rows][chosen].tolist(), edges.dst[rows][chosen].tolist(), strict=True))


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 1000), st.booleans(), st.booleans(), st.integers(0, 3))
def test_blocks_against_sets(data_seed: int, only_new: bool, subset: bool, seed: int) -> None:
    stream = random_events(data_seed, 60)
    events = np.arange(32, 60)
    if subset:
        events = events[np.random.default_rng(seed).random(28) < 0.6]
    among = events if subset else np.arange(60)
    found = sample_edges(
        stream, events, np.random.default_rng(seed), among=among if subset else None, only_new=only_new
    )
    assert len(found.src) == len(found.dst) == len(found.fallback) == len(events)
    for start in range(0, len(events), 5):
        rows = slice(start, min(start + 5, len(events)))
        pool, grid = candidates(stream, events, among, events[rows], only_new)
        drawn, random = sampled(found, rows, fallback=False), sampled(found, rows, fallback=True)
        assert set(drawn) <= pool
        assert len(set(drawn)) == len(drawn) == min(len(pool), rows.stop - rows.start)
        assert set(random) <= grid
        assert len(set(random)) == min(len(random), len(grid))


def test_no_negative_is_true_at_its_time() -> None:
    stream = random_events(4, 300)
    true = set(zip(stream.src.tolist(), stream.dst.tolist(), stream.t.tolist(), strict=True))
    events = np.arange(200, 300)
    for only_new in (False, True):
        found = sample_edges(stream, events, np.random.default_rng(0), only_new=only_new)
        times = stream.t[events].tolist()
        assert not true & set(zip(found.src.tolist(), found.dst.tolist(), times, strict=True))


def test_every_candidate_is_equally_likely() -> None:
    """Edges 0-4, 0-5 and 1-4 occurred before; 1-5 occurs now; the block has two events."""
    stream = EventStream(
        np.array([0, 0, 1, 0, 1, 1]), np.array([4, 5, 4, 4, 5, 5]), np.arange(6), NodeIds(np.arange(6))
    )
    rng = np.random.default_rng(0)
    codes = []
    for _ in range(3000):
        found = sample_edges(stream, np.array([4, 5]), rng)
        assert not found.fallback.any()
        codes.append(tuple((found.src * 10 + found.dst).tolist()))
    pairs, counts = np.unique(codes, axis=0, return_counts=True)
    assert sorted(map(tuple, pairs.tolist())) == [(4, 5), (4, 14), (5, 4), (5, 14), (14, 4), (14, 5)]
    assert stats.chisquare(counts).pvalue > 1e-3


def test_random_pairs_are_equally_likely_and_counted() -> None:
    """Only edges that are new since event 3 count, and there is none at the first block's start."""
    stream = EventStream(
        np.array([0, 0, 1, 2, 2]), np.array([4, 5, 6, 4, 4]), np.arange(5), NodeIds(np.arange(7))
    )
    rng = np.random.default_rng(1)
    drawn = [sample_edges(stream, np.array([3]), rng, only_new=True) for _ in range(4000)]
    assert all(found.fallback_share == 1 for found in drawn)
    edges, counts = np.unique([(int(f.src[0]), int(f.dst[0])) for f in drawn], axis=0, return_counts=True)
    assert set(map(tuple, edges.tolist())) == {(s, d) for s in range(3) for d in (4, 5, 6)} - {(2, 4)}
    assert stats.chisquare(counts).pvalue > 1e-3


def test_a_fallback_that_its_own_events_do_not_leave_uses_the_whole_stream() -> None:
    stream = EventStream(np.array([0, 1, 1]), np.array([2, 3, 2]), np.arange(3), NodeIds(np.arange(4)))
    last = np.array([2])  # the only pair of its source and destination is true
    drawn = {
        (int(f.src[0]), int(f.dst[0]))
        for f in (sample_edges(stream, last, np.random.default_rng(s), among=last) for s in range(40))
    }
    assert drawn == {(0, 2), (0, 3), (1, 3)}


def test_a_stream_of_one_pair_is_refused() -> None:
    stream = EventStream(np.zeros(3, int), np.ones(3, int), np.arange(3), NodeIds(np.arange(2)))
    with pytest.raises(DataError, match=r"every pair of a source and a destination interacts.*event 1"):
        sample_edges(stream, np.array([1, 2]), np.random.default_rng(0))


def test_no_events() -> None:
    found = sample_edges(random_events(0, 10), np.arange(0), np.random.default_rng(0))
    assert found.src.shape == found.dst.shape == (0,)
    assert isnan(found.fallback_share)


def test_shares_of_a_real_stream(
    real_stream: Callable[[str], EventStream], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Historical edges never run out; in the first test block there are no inductive ones yet."""
    monkeypatch.setattr(negative_edges, "BLOCK", 200)
    stream = real_stream("collegemsg")
    events = np.arange(int(0.85 * len(stream)), len(stream))
    historical = sample_edges(stream, events, np.random.default_rng(0))
    inductive = sample_edges(stream, events, np.random.default_rng(0), only_new=True)
    assert historical.fallback_share == 0
    assert inductive.fallback[:200].all()
    assert 0 < inductive.fallback_share < 0.1
