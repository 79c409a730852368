"""The negatives of evaluations: by definition, always the same, and never true."""

from __future__ import annotations

from math import isnan, nan
from typing import get_args

import numpy as np
import pytest
import torch
from support.problems import random_stream

from contig.data.events import EventStream
from contig.data.negative_edges import NegativeEdges
from contig.data.splits import Split, chronological_split
from contig.tasks.link import NegativeKind
from contig.tasks.link_negatives import draw_negatives

KINDS: tuple[NegativeKind, ...] = get_args(NegativeKind)
Edge = tuple[int, int]


@pytest.fixture
def stream() -> EventStream:
    return random_stream(2, events=260, num_nodes=23)


@pytest.fixture
def split(stream: EventStream) -> Split:
    return chronological_split(stream, hidden=0.2, seed=1)


def edges(stream: EventStream, at: np.ndarray) -> list[Edge]:
    return list(zip(stream.src[at].tolist(), stream.dst[at].tolist(), strict=True))


def drawn(negatives: NegativeEdges) -> list[Edge]:
    return list(zip(negatives.src.tolist(), negatives.dst.tolist(), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_negatives_are_always_the_same_and_only_some_may_be_true(
    kind: NegativeKind, stream: EventStream, split: Split
) -> None:
    """Whatever was drawn before."""
    torch.manual_seed(1)
    first = draw_negatives(stream, split, split.test, kind)
    torch.manual_seed(2)
    np.random.default_rng(0).random(3)
    draw_negatives(stream, split, split.val, kind)
    again = draw_negatives(stream, split, split.test, kind)
    true = set(zip(stream.src.tolist(), stream.dst.tolist(), stream.t.tolist(), strict=True))
    new = {v for v in range(23) if v not in {n for edge in edges(stream, split.train) for n in edge}}
    assert first.inductive.tolist() == [bool(new & set(edge)) for edge in edges(stream, split.test)]
    assert 5 < first.inductive.sum() < len(split.test) - 5
    for one, other, events in (
        (first.ours, again.ours, split.test),
        (first.dyglib, again.dyglib, split.test[first.inductive]),
    ):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
        assert len(drawn(one)) == len(events)
        hits = true & {(*e, t) for e, t in zip(drawn(one), stream.t[events].tolist(), strict=True)}
        assert bool(hits) is (kind == "random-any")


def test_random_negatives_keep_the_source(stream: EventStream, split: Split) -> None:
    """By dyglib they are drawn from the destinations of inductive events."""
    found = draw_negatives(stream, split, split.test)
    new = split.test[found.inductive]
    np.testing.assert_array_equal(found.ours.src, stream.src[split.test])
    np.testing.assert_array_equal(found.dyglib.src, stream.src[new])
    assert set(found.ours.dst.tolist()) <= set(stream.dst.tolist())
    assert not set(found.ours.dst[found.inductive].tolist()) <= set(stream.dst[new].tolist())
    assert set(found.dyglib.dst.tolist()) <= set(stream.dst[new].tolist())
    assert len(set(found.dyglib.dst.tolist())) > 3
    assert isnan(found.random_fallback)
    assert isnan(found.random_fallback_dyglib)


def test_unchecked_negatives_are_uniform() -> None:
    """Every destination, the true one included, is drawn equally often."""
    few = random_stream(5, events=4000, num_nodes=6)
    parts = chronological_split(few, seed=1)
    found = draw_negatives(few, parts, parts.test, "random-any")
    np.testing.assert_array_equal(found.ours.src, few.src[parts.test])
    counts = np.bincount(found.ours.dst, minlength=6)[few.destinations]
    expected = len(parts.test) / len(few.destinations)
    assert np.all(np.abs(counts - expected) < 5 * np.sqrt(expected))
    assert isnan(found.random_fallback)


def test_historical_negatives_are_earlier_edges(stream: EventStream, split: Split) -> None:
    """Of any source; by dyglib, of earlier inductive events. The test fits into one block."""
    found = draw_negatives(stream, split, split.test, "historical")
    first, last = stream.t[split.test[[0, -1]]]
    now = set(edges(stream, np.flatnonzero((stream.t >= first) & (stream.t <= last))))
    pool = set(edges(stream, np.flatnonzero(stream.t <= first))) - now
    assert len(pool) >= len(split.test)
    assert set(drawn(found.ours)) <= pool
    assert found.random_fallback == 0
    assert np.any(found.ours.src != stream.src[split.test])
    assert found.random_fallback_dyglib == 1  # nothing inductive in the test precedes its first block
    sources = {int(s) for s in stream.src[split.test[found.inductive]]}
    assert set(found.dyglib.src.tolist()) <= sources


def test_inductive_negatives_are_edges_that_first_occur_in_the_test(
    stream: EventStream, split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("contig.data.negative_edges.BLOCK", 9)
    found = draw_negatives(stream, split, split.test, "inductive")
    known = set(edges(stream, np.arange(split.test[0])))
    later = set(edges(stream, split.test)) - known
    fallback = found.ours.fallback
    assert {edge for edge, random in zip(drawn(found.ours), fallback, strict=True) if not random} <= later
    assert 0.2 < found.random_fallback < 1
    assert found.random_fallback == fallback.mean()
    assert fallback[:9].all()


def test_historical_negatives_of_the_same_source(stream: EventStream, split: Split) -> None:
    found = draw_negatives(stream, split, split.test, "historical-source")
    trained: dict[int, set[int]] = {}
    for src, dst in edges(stream, split.train):
        trained.setdefault(src, set()).add(dst)
    fallbacks = []
    for event, (src, dst) in zip(split.test, drawn(found.ours), strict=True):
        assert src == stream.src[event]
        true = {d for s, d in edges(stream, np.flatnonzero(stream.t == stream.t[event])) if s == src}
        left = trained.get(src, set()) - true
        assert dst in left or not left
        fallbacks.append(not left)
    assert found.ours.fallback.tolist() == fallbacks
    assert 0 < found.random_fallback < 1


def test_a_source_with_all_inductive_destinations_gets_another(split: Split) -> None:
    """Node 8 is new; at the end it meets both destinations of the inductive events at once."""
    n = np.arange(40)
    src, dst = np.append(n % 4, [8, 8]), np.append(4 + n % 3, [4, 5])
    stream = EventStream.from_arrays(src, dst, np.append(n, [40, 40]))
    split = chronological_split(stream, holdout="paper")
    found = draw_negatives(stream, split, split.test, "random")
    assert found.inductive.sum() == 2
    assert set(found.dyglib.dst.tolist()) == {stream.dst[2]}
    assert draw_negatives(stream, split, split.test, "historical-source").random_fallback_dyglib == 1


def test_a_source_with_a_past_keeps_its_own_negative() -> None:
    """All inductive events have one destination, so no random one is left, but each source met another."""
    n = np.arange(40)
    src, dst = np.append(n % 4, [0, 1, 2]), np.append(4 + n % 3, [8, 8, 8])  # node 8 is new
    stream = EventStream.from_arrays(src, dst, np.append(n, [40, 41, 42]), bipartite=False)
    split = chronological_split(stream, holdout="paper")
    found = draw_negatives(stream, split, split.test, "historical-source")
    assert found.inductive.sum() == 3
    assert found.random_fallback_dyglib == 0
    met = set(edges(stream, split.train))
    assert all(edge in met for edge in drawn(found.dyglib))


def test_no_inductive_events(stream: EventStream) -> None:
    split = chronological_split(stream, holdout="paper")
    split.new_nodes[:] = False
    for kind in KINDS:
        found = draw_negatives(stream, split, split.test, kind)
        assert len(found.dyglib.src) == 0
        assert found.random_fallback_dyglib == pytest.approx(nan, nan_ok=True)
