"""Uniform draws from the past: distinct, fair, and determined by their generator."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from support.histories import NODES, Event, entries, event_lists, every_query, past, stream_of

from contig.history import History


@settings(deadline=None)
@given(event_lists(), st.integers(1, 7), st.integers(0, 5))
def test_draws_are_distinct_events_of_the_past(events: list[Event], k: int, seed: int) -> None:
    history = History.from_stream(stream_of(events))
    nodes, times = every_query(NODES, events[-1][2] if events else 1)
    answer = history.before(nodes, times, k, "uniform", torch.Generator().manual_seed(seed))
    for v, t, drawn in zip(nodes.tolist(), times.tolist(), entries(answer), strict=True):
        everything = past(events, v, t)
        positions = [event for _, event, _ in drawn]
        assert len(drawn) == min(k, len(everything))
        assert set(drawn) <= set(everything)
        assert positions == sorted(set(positions), reverse=True)  # distinct, the most recent first
    assert torch.equal(answer.mask, answer.mask.sort(dim=1, descending=True).values)  # padding comes last


@pytest.mark.parametrize(("degree", "k"), [(7, 1), (7, 3), (7, 6), (40, 5)])
def test_every_past_event_is_equally_likely(degree: int, k: int) -> None:
    history = History.from_stream(stream_of([(0, 1, t) for t in range(degree + 3)]))
    draws = 6000
    nodes, times = torch.zeros(draws, dtype=torch.int64), torch.full((draws,), degree)
    answer = history.before(nodes, times, k, "uniform", torch.Generator().manual_seed(4))
    counts = torch.bincount(answer.event.flatten(), minlength=degree)
    assert len(counts) == degree  # none of the last three
    # drawing k of n without replacement: counts vary less than a multinomial's by (n - k) / (n - 1)
    expected = draws * k / degree
    statistic = float(((counts - expected) ** 2 / expected).sum()) * (degree - 1) / (degree - k)
    assert 1e-3 < stats.chi2.sf(statistic, degree - 1) < 1 - 1e-3


def test_every_pair_of_events_is_equally_likely() -> None:
    """Fair single events are not enough: they must not be correlated either."""
    history = History.from_stream(stream_of([(0, 1, t) for t in range(5)]))
    nodes, times = torch.zeros(8000, dtype=torch.int64), torch.full((8000,), 5)
    answer = history.before(nodes, times, 2, "uniform", torch.Generator().manual_seed(11))
    later, earlier = answer.event.unbind(1)
    pairs = torch.bincount(later * 5 + earlier, minlength=25).reshape(5, 5)
    drawn = pairs[tuple(torch.tril_indices(5, 5, -1))]
    assert drawn.sum() == 8000
    assert stats.chisquare(drawn.numpy()).pvalue > 1e-3


def test_draws_depend_on_their_generator_alone() -> None:
    history = History.from_stream(stream_of([(0, 1, t) for t in range(50)]))
    nodes, times = torch.zeros(20, dtype=torch.int64), torch.full((20,), 50)

    def draw(seed: int) -> torch.Tensor:
        return history.before(nodes, times, 4, "uniform", torch.Generator().manual_seed(seed)).event

    torch.manual_seed(0)
    first, state = draw(1), torch.get_rng_state()
    torch.manual_seed(99)
    assert torch.equal(draw(1), first)
    assert not torch.equal(draw(2), first)
    torch.manual_seed(0)
    draw(3)
    assert torch.equal(torch.get_rng_state(), state)
