"""Splits and intervals against slow twins."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contig.data.events import EventStream
from contig.data.ids import NodeIds
from contig.data.splits import HOLDOUTS, Holdout, chronological_split, interval_sets, intervals
from contig.errors import ConfigError

Event = tuple[int, int, float]
NODES = 9


def stream_of(events: list[Event], num_nodes: int = NODES) -> EventStream:
    src, dst, t = (np.array(column) for column in zip(*events, strict=True))
    return EventStream(src, dst, t, NodeIds(np.arange(num_nodes)))


@st.composite
def event_lists(draw: st.DrawFn, most: int = 40) -> list[Event]:
    gaps = draw(st.lists(st.sampled_from([0, 0, 1, 3]), min_size=1, max_size=most))
    scale = draw(st.sampled_from([1, 0.25]))
    node = st.integers(0, NODES - 1)
    return [(draw(node), draw(node), t * scale) for t in np.cumsum(gaps).tolist()]


def quantile(times: list[float], share: float) -> float:
    """The value at that share of the way from the first to the last, linear in between."""
    place = share * (len(times) - 1)
    low = int(place)
    high = min(low + 1, len(times) - 1)
    return times[low] + (times[high] - times[low]) * (place - low)


@pytest.mark.parametrize(("factor", "shift"), [(10**9, 0), (1, 2**62 - 10**6), (1, -(2**62) + 5)])
def test_the_split_depends_on_no_unit_and_no_origin(factor: int, shift: int) -> None:
    """In nanoseconds since 1970, float64 cannot tell neighboring times apart."""
    rng = np.random.default_rng(3)
    for events in (11, 71, 200):
        n, t = np.arange(events), np.sort(rng.integers(0, 900, events))
        plain, moved = (
            chronological_split(EventStream.from_arrays(n % 7, 9 + n % 5, x)) for x in (t, t * factor + shift)
        )
        for part in ("train", "val", "test"):
            np.testing.assert_array_equal(getattr(moved, part), getattr(plain, part))


@settings(deadline=None)
@given(
    event_lists(),
    st.sampled_from(HOLDOUTS),
    st.sampled_from([(0.7, 0.15), (0.25, 0.25), (0.75, 0.0), (0.75, 0.25)]),
    st.sampled_from([0.0, 0.1, 0.35, 1.0]),
)
def test_the_split_equals_a_slow_one(
    events: list[Event], holdout: Holdout, shares: tuple[float, float], hidden: float
) -> None:
    train_share, val = shares
    split = chronological_split(stream_of(events), shares, holdout=holdout, hidden=hidden, seed=5)
    times = [t for _, _, t in events]
    tolerance = 1e-9  # interpolation rounds; times here are at least 0.25 apart
    train_end, val_end = (quantile(times, x) + tolerance for x in (train_share, train_share + val))
    early = [i for i, t in enumerate(times) if t <= train_end]
    assert split.val.tolist() == [i for i, t in enumerate(times) if train_end < t <= val_end]
    assert split.test.tolist() == [i for i, t in enumerate(times) if t > val_end]

    train = split.train.tolist()
    seen = {v for i in train for v in events[i][:2]}
    assert split.new_nodes.tolist() == [v not in seen for v in range(NODES)]
    later = {v for s, d, _ in events[len(early) :] for v in (s, d)}
    if holdout != "tgn":
        assert train == early
        assert split.hidden_events == 0
        return
    # The split does not say who is hidden, but an early event is left out for one reason only.
    assert set(train) <= set(early)
    assert train == sorted(train)
    left_out = [events[i] for i in early if i not in train]
    assert all({s, d} & later - seen for s, d, _ in left_out)
    could_hide = min(int(hidden * NODES), len(later))
    gone = {v for s, d, _ in left_out for v in (s, d)} - seen
    assert bool(could_hide) or not gone
    if could_hide == len(later):  # then all later nodes are hidden, and only they
        assert train == [i for i in early if not set(events[i][:2]) & later]


@settings(deadline=None)
@given(event_lists(), st.sampled_from(HOLDOUTS), st.integers(0, 5))
def test_equal_times_are_never_separated(events: list[Event], holdout: Holdout, seed: int) -> None:
    stream = stream_of(events)
    split = chronological_split(stream, (0.4, 0.3), holdout=holdout, seed=seed)
    parts = [set(stream.t[part].tolist()) for part in (split.train, split.val, split.test)]
    assert not parts[0] & parts[1]
    assert not parts[1] & parts[2]
    assert not parts[0] & parts[2]


@pytest.mark.parametrize("holdout", HOLDOUTS)
def test_no_training_event_has_a_new_node(
    holdout: Holdout, real_stream: Callable[[str], EventStream]
) -> None:
    stream = real_stream("collegemsg")
    split = chronological_split(stream, holdout=holdout)
    assert not split.new_nodes[stream.src[split.train]].any()
    assert not split.new_nodes[stream.dst[split.train]].any()


def test_wikipedia_is_cut_as_published(real_stream: Callable[[str], EventStream]) -> None:
    stream = real_stream("wikipedia")
    split = chronological_split(stream, holdout="paper")
    assert [len(split.train), len(split.val), len(split.test)] == [110_232, 23_621, 23_621]
    seen = set(stream.src[:110_232].tolist()) | set(stream.dst[:110_232].tolist())
    assert np.flatnonzero(~split.new_nodes).tolist() == sorted(seen)


def test_a_tenth_of_the_nodes_is_hidden_from_those_that_occur_later(
    real_stream: Callable[[str], EventStream],
) -> None:
    stream = real_stream("wikipedia")
    paper, tgn = (chronological_split(stream, holdout=holdout) for holdout in ("paper", "tgn"))
    assert np.array_equal(paper.val, tgn.val)
    assert np.array_equal(paper.test, tgn.test)
    later = set(stream.src[110_232:].tolist()) | set(stream.dst[110_232:].tolist())
    left_out = np.setdiff1d(paper.train, tgn.train)
    touched = set(stream.src[left_out].tolist()) | set(stream.dst[left_out].tolist())
    # Besides the hidden ones, nodes may be new because all their early events were with hidden ones.
    hidden = {v for v in np.flatnonzero(tgn.new_nodes & ~paper.new_nodes).tolist() if v in later}
    assert 0 < len(hidden) <= int(0.1 * stream.num_nodes)
    for s, d in zip(stream.src[left_out].tolist(), stream.dst[left_out].tolist(), strict=True):
        assert {s, d} & hidden
    assert touched - hidden  # hidden nodes' partners were trained on elsewhere
    again = chronological_split(stream, holdout="tgn")
    other = chronological_split(stream, holdout="tgn", seed=1)
    assert np.array_equal(tgn.train, again.train)
    assert not np.array_equal(tgn.train, other.train)


def test_the_number_of_hidden_nodes_is_exact() -> None:
    """Every node meets every other both early and late, so each hidden node shows."""
    pairs = [(s, d) for s in range(10) for d in range(10) if s != d]
    events = [(s, d, float(t)) for t, (s, d) in enumerate(pairs * 2)]
    for share, count in [(0.0, 0), (0.1, 1), (0.35, 3)]:
        split = chronological_split(stream_of(events, 10), (0.5, 0.25), hidden=share, seed=4)
        assert split.new_nodes.sum() == count
        kept = [i for i in range(90) if not split.new_nodes[list(events[i][:2])].any()]
        assert split.train.tolist() == kept


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"holdout": "tng"}, "Did you mean 'tgn'"),
        ({"hidden": "many"}, "hidden=many"),
        ({"hidden": 1.5}, "hidden=1.5"),
        ({"hidden": -0.1}, "hidden=-0.1"),
    ],
)
def test_invalid_options_are_rejected(options: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        chronological_split(stream_of([(0, 1, 0), (1, 2, 1)]), **options)


# -- intervals -------------------------------------------------------------------------------------


@settings(deadline=None)
@given(event_lists())
def test_intervals_equal_a_dictionary_of_last_times(events: list[Event]) -> None:
    last: dict[int, float] = {}
    expected = []
    for s, d, t in events:
        expected.append(t - last.get(s, t))
        last[s] = last[d] = t
    found = intervals(stream_of(events))
    assert found.dtype == np.float64
    assert found.tolist() == expected


def test_intervals_by_hand() -> None:
    events: list[Event] = [(0, 1, 10), (0, 0, 13), (1, 0, 13), (0, 2, 13), (2, 1, 20), (3, 3, 21), (3, 0, 25)]
    assert intervals(stream_of(events)).tolist() == [0, 3, 3, 0, 7, 0, 4]


def test_integer_times_keep_their_differences() -> None:
    """Nanoseconds since 1970 differ by less than a float resolves; their differences are exact."""
    now = 1_700_000_000_000_000_001
    assert intervals(stream_of([(0, 1, now), (0, 1, now + 1), (1, 0, now + 4)])).tolist() == [0, 1, 3]


@pytest.mark.parametrize(("count", "cuts"), [(1000, (0.2, 0.4, 0.6, 0.8)), (997, (0.5,)), (43, (0.25, 0.5))])
def test_interval_sets_without_ties_have_equal_sizes(count: int, cuts: tuple[float, ...]) -> None:
    dt = np.random.default_rng(6).permutation(count) ** 1.5
    sets = interval_sets(dt, cuts)
    shares = np.diff([0.0, *cuts, 1.0])
    assert np.abs(np.bincount(sets) - shares * count).max() <= 1
    ends = [(dt[sets == i].min(), dt[sets == i].max()) for i in range(len(shares))]
    assert all(low[1] < high[0] for low, high in pairwise(ends))


def test_interval_sets_keep_ties_together() -> None:
    dt = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0])
    sets = interval_sets(dt)
    assert len(set(sets[:6].tolist())) == 1
    assert sets[:6].max() == 0
    assert sets[6:].tolist() == sorted(sets[6:].tolist())
    assert sets[-1] == 4
