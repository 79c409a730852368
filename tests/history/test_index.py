"""The history against a twin made of Python lists, and what it promises about growing and keeping."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from contig.data.events import EventStream
from contig.data.ids import NodeIds
from contig.errors import ConfigError, DataError
from contig.history import History, Neighbors
from contig.history import index as module
from contig.kernels import dispatch

Event = tuple[int, int, float]
NODES = 6


def stream_of(events: list[Event], num_nodes: int = NODES, *, float_times: bool = False) -> EventStream:
    """A stream with these very ids; ``from_arrays`` would number the nodes anew."""
    src, dst, t = (np.array([e[i] for e in events]) for i in range(3))
    return EventStream(
        src=src.astype(np.int64),
        dst=dst.astype(np.int64),
        t=t.astype(np.float64 if float_times else np.int64),
        ids=NodeIds(np.arange(num_nodes)),
    )


def tensors(events: list[Event], time_dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    src, dst, t = ([e[i] for e in events] for i in range(3))
    return torch.tensor(src).long(), torch.tensor(dst).long(), torch.tensor(t, dtype=time_dtype)


def past(events: list[Event], node: int, time: float, numbers: list[int] | None = None) -> list[tuple]:
    """(neighbour, event, time) of every event of the node before the time, the most recent first."""
    found = []
    for i in range(len(events)) if numbers is None else numbers:
        src, dst, t = events[i]
        if t < time and node in (src, dst):
            found.append((dst if node == src else src, i, t))
    return found[::-1]


def rows(answer: Neighbors) -> list[list[tuple]]:
    """Each query's neighbours as tuples, without the padding."""
    columns = [x.tolist() for x in answer]
    return [
        [(n, e, t) for n, e, t, there in zip(*row, strict=True) if there]
        for row in zip(*columns, strict=True)
    ]


def assert_same(a: Neighbors, b: Neighbors) -> None:
    for name, x, y in zip(a._fields, a, b, strict=True):
        assert x.dtype == y.dtype, name
        assert torch.equal(x.cpu(), y.cpu()), name


def every_query(num_nodes: int, last: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Every node, and some that are none, at every half of a time."""
    node, time = np.meshgrid(np.arange(-1, num_nodes + 3), np.arange(-1, last + 2, 0.5))
    return torch.from_numpy(node.ravel()), torch.from_numpy(time.ravel())


ends = st.integers(0, NODES - 1)


@st.composite
def event_lists(draw: st.DrawFn, least: int = 0, most: int = 25) -> list[Event]:
    """Events in time order, rich in ties, self-loops and repeats."""
    gaps = draw(st.lists(st.sampled_from([0, 0, 1, 2]), min_size=least, max_size=most))
    times = np.cumsum(gaps).tolist()
    return [(draw(ends), draw(ends), t) for t in times]


# -- asking ----------------------------------------------------------------------------------------


@settings(deadline=None)
@given(event_lists(), st.integers(1, 7), st.booleans(), st.booleans())
def test_recent_is_the_last_of_the_past(
    events: list[Event], k: int, float_times: bool, float_queries: bool
) -> None:
    if float_times:
        events = [(s, d, t / 2) for s, d, t in events]
    history = History.from_stream(stream_of(events, float_times=float_times))
    nodes, times = every_query(NODES, events[-1][2] if events else 1.0)
    if not float_queries:
        times = times.floor().long()

    answer = history.before(nodes, times, k)
    expected = [past(events, v, t) for v, t in zip(nodes.tolist(), times.tolist(), strict=True)]
    assert rows(answer) == [found[:k] for found in expected]
    assert history.count_before(nodes, times).tolist() == [len(found) for found in expected]
    assert answer.time.dtype == history.events["t"].dtype
    assert_same(answer, history._before(nodes, times, k, "recent", None))


@settings(deadline=None)
@given(event_lists(least=1), st.integers(0, 30))
def test_what_is_not_before_changes_nothing(events: list[Event], now: int) -> None:
    nodes = torch.arange(-1, NODES + 1)
    times = torch.full_like(nodes, now)
    earlier = [e for e in events if e[2] < now]
    answers = [History.from_stream(stream_of(x)).before(nodes, times, 4) for x in (events, earlier)]
    assert_same(*answers)


def test_padding_is_the_query_itself() -> None:
    history = History.from_stream(stream_of([(0, 1, 5), (2, 0, 8)]))
    answer = history.before(torch.tensor([0, 4, 99, -3]), torch.tensor([8, 9, 10, 11]), k=3)
    assert answer.mask.tolist() == [[True, False, False], [False] * 3, [False] * 3, [False] * 3]
    assert answer.node.tolist() == [[1, 0, 0], [4] * 3, [99] * 3, [-3] * 3]
    assert answer.event.tolist() == [[0, 0, 0], [0] * 3, [0] * 3, [0] * 3]
    assert answer.time.tolist() == [[5, 8, 8], [9] * 3, [10] * 3, [11] * 3]


def test_integer_times_beyond_float_precision_stay_apart() -> None:
    """Nanoseconds since 1970: neighbours in time are one and the same float."""
    now = 1_700_000_000_000_000_001
    history = History.from_stream(stream_of([(0, 1, now - 1), (0, 2, now), (0, 3, now + 1)]))
    assert history.count_before(torch.tensor([0, 0, 0]), torch.tensor([now - 1, now, now + 1])).tolist() == [
        0,
        1,
        2,
    ]


@pytest.mark.parametrize("float_times", [False, True])
def test_times_without_end_and_no_time_at_all(float_times: bool) -> None:
    events: list[Event] = [(0, 1, 3), (1, 0, 4)]
    history = History.from_stream(stream_of(events, float_times=float_times))
    nodes, times = torch.tensor([0, 0, 0]), torch.tensor([torch.inf, -torch.inf, torch.nan]).double()
    assert history.count_before(nodes, times).tolist() == [2, 0, 0]
    assert history.before(nodes, times, 5).mask.sum(dim=1).tolist() == [2, 0, 0]


def test_strided_and_narrow_queries_give_the_same_answer() -> None:
    events: list[Event] = [(i % 3, 3 + i % 2, i // 2) for i in range(17)]
    history = History.from_stream(stream_of(events))
    nodes, times = torch.arange(12) % 5, torch.arange(12)
    expected = history.before(nodes, times, 3)
    pairs = torch.stack([nodes, times], dim=1)
    assert_same(history.before(pairs[:, 0], pairs[:, 1], 3), expected)
    assert_same(history.before(nodes.int(), times.int(), 3), expected)


def test_without_the_compiler_the_answer_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = random_stream(np.random.default_rng(1), events=60, num_nodes=7)
    nodes, times = every_query(7, 30)
    compiled = History.from_stream(stream).before(nodes, times, 4)
    monkeypatch.setattr(dispatch, "_enabled", False)
    monkeypatch.setattr(History, "_before_compiled", None)
    monkeypatch.setattr(History, "_place_compiled", None)
    assert_same(History.from_stream(stream).before(nodes, times, 4), compiled)


def random_stream(rng: np.random.Generator, events: int, num_nodes: int, width: int = 0) -> EventStream:
    src, dst = rng.integers(0, num_nodes, (2, events))
    return EventStream(
        src=src,
        dst=dst,
        t=np.sort(rng.integers(0, events // 2, events)),
        ids=NodeIds(np.arange(num_nodes)),
        edge_features=rng.standard_normal((events, width)).astype(np.float32) if width else None,
    )


def test_a_real_stream_gives_what_its_lists_give(real_stream: Callable[[str], EventStream]) -> None:
    stream = real_stream("enron")  # the one with the most ties
    lists: list[list[tuple]] = [[] for _ in range(stream.num_nodes)]
    for i, (s, d, t) in enumerate(
        zip(stream.src.tolist(), stream.dst.tolist(), stream.t.tolist(), strict=True)
    ):
        lists[s].append((d, i, t))
        if s != d:
            lists[d].append((s, i, t))
    rng = np.random.default_rng(3)
    nodes = torch.from_numpy(rng.integers(0, stream.num_nodes, 300))
    times = torch.from_numpy(rng.choice(stream.t, 300))
    answer = History.from_stream(stream).before(nodes, times, 15)
    for v, time, found in zip(nodes.tolist(), times.tolist(), rows(answer), strict=True):
        assert found == [x for x in lists[v] if x[2] < time][::-1][:15]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"k": 0}, "k=0"),
        ({"how": "uniforn"}, "Did you mean 'uniform'"),
    ],
)
def test_unknown_choices_are_refused(change: dict[str, Any], told: str) -> None:
    options: dict[str, Any] = {"k": 2, "how": "recent"} | change
    with pytest.raises(ConfigError, match=told):
        History.empty(3).before(torch.tensor([0]), torch.tensor([0]), **options)


@pytest.mark.parametrize(
    ("nodes", "times", "told"),
    [
        (torch.tensor([0, 1]), torch.tensor([1]), "one length"),
        (torch.tensor([[0]]), torch.tensor([[1]]), "two vectors"),
        (torch.tensor([0]), torch.tensor([1.0]), "float32 loses seconds"),
        (torch.tensor([0.0]), torch.tensor([1]), "nodes are torch.float32"),
    ],
)
def test_questions_that_make_no_sense_are_refused(
    nodes: torch.Tensor, times: torch.Tensor, told: str
) -> None:
    history = History.from_stream(stream_of([(0, 1, 5)]))
    with pytest.raises(DataError, match=told):
        history.before(nodes, times, 2)
    with pytest.raises(DataError, match=told):
        history.count_before(nodes, times)


# -- uniform ---------------------------------------------------------------------------------------


@settings(deadline=None)
@given(event_lists(), st.integers(1, 7), st.integers(0, 5))
def test_uniform_draws_distinct_events_of_the_past(events: list[Event], k: int, seed: int) -> None:
    history = History.from_stream(stream_of(events))
    nodes, times = every_query(NODES, events[-1][2] if events else 1)
    answer = history.before(nodes, times, k, "uniform", torch.Generator().manual_seed(seed))
    for v, t, drawn in zip(nodes.tolist(), times.tolist(), rows(answer), strict=True):
        everything = past(events, v, t)
        numbers = [event for _, event, _ in drawn]
        assert len(drawn) == min(k, len(everything))
        assert set(drawn) <= set(everything)
        assert numbers == sorted(set(numbers), reverse=True)  # distinct, the most recent first
    assert torch.equal(answer.mask, answer.mask.sort(dim=1, descending=True).values)  # padding comes last


@pytest.mark.parametrize(("degree", "k"), [(7, 1), (7, 3), (7, 6), (40, 5)])
def test_uniform_gives_every_past_event_its_share(degree: int, k: int) -> None:
    history = History.from_stream(stream_of([(0, 1, t) for t in range(degree + 3)]))
    draws = 6000
    nodes, times = torch.zeros(draws, dtype=torch.int64), torch.full((draws,), degree)
    answer = history.before(nodes, times, k, "uniform", torch.Generator().manual_seed(4))
    counts = torch.bincount(answer.event.flatten(), minlength=degree)
    assert len(counts) == degree  # nothing of the later three
    # drawing k of n without replacement: counts spread less than a multinomial's by (n - k) / (n - 1)
    expected = draws * k / degree
    statistic = float(((counts - expected) ** 2 / expected).sum()) * (degree - 1) / (degree - k)
    assert 1e-3 < stats.chi2.sf(statistic, degree - 1) < 1 - 1e-3


def test_uniform_draws_every_pair_as_often_as_any_other() -> None:
    """Fair single events are not enough: draws must not come in habitual company."""
    history = History.from_stream(stream_of([(0, 1, t) for t in range(5)]))
    nodes, times = torch.zeros(8000, dtype=torch.int64), torch.full((8000,), 5)
    answer = history.before(nodes, times, 2, "uniform", torch.Generator().manual_seed(11))
    later, earlier = answer.event.unbind(1)
    pairs = torch.bincount(later * 5 + earlier, minlength=25).reshape(5, 5)
    drawn = pairs[tuple(torch.tril_indices(5, 5, -1))]
    assert drawn.sum() == 8000
    assert stats.chisquare(drawn.numpy()).pvalue > 1e-3


def test_uniform_is_ruled_by_its_generator_alone() -> None:
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


# -- appending -------------------------------------------------------------------------------------


@pytest.mark.parametrize("compiled", [True, False])
@settings(deadline=None)
@given(st.data(), event_lists(least=1, most=40), st.booleans())
def test_appended_equals_built_whole(
    compiled: bool, data: st.DataObject, events: list[Event], float_times: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if not compiled:
            patch.setattr(dispatch, "_enabled", False)
        check_appended_equals_built_whole(data, events, float_times)


def check_appended_equals_built_whole(data: st.DataObject, events: list[Event], float_times: bool) -> None:
    prefix = data.draw(st.integers(0, len(events)))
    dtype = torch.float64 if float_times else torch.int64
    whole = History.from_stream(stream_of(events, float_times=float_times))
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

    assert grown.num_events == len(events)
    for name in ("src", "dst", "t"):
        assert torch.equal(grown.events[name], whole.events[name])
    nodes, times = every_query(NODES, events[-1][2])
    assert_same(grown.before(nodes, times, 6), whole.before(nodes, times, 6))
    expected = [past(events, v, t)[:6] for v, t in zip(nodes.tolist(), times.tolist(), strict=True)]
    assert rows(grown._before(nodes, times, 6, "recent", None)) == expected


def test_appending_keeps_features_with_their_events() -> None:
    stream = random_stream(np.random.default_rng(5), events=37, num_nodes=9, width=4)
    history = History.from_stream(stream[:11])
    for low, high in [(11, 12), (12, 30), (30, 37)]:
        part = stream[low:high]
        columns = (part.src, part.dst, part.t, part.edge_features)
        history.append(*(torch.from_numpy(x.copy()) for x in columns))
    assert np.array_equal(history.events["features"].numpy(), stream.edge_features)


def test_event_numbers_widen_before_they_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WIDE", 4)
    events: list[Event] = [(0, 1, t) for t in range(6)]
    history = History.from_stream(stream_of(events[:2]))
    history.append(*tensors(events[2:3], torch.int64))  # segments move and have room to spare
    asked = torch.tensor([0]), torch.tensor([9])
    assert history.entry_event.dtype == torch.int32
    assert rows(history.before(*asked, 9)) == [past(events[:3], 0, 9)]
    pool = len(history.entry_event)
    history.append(*tensors(events[3:5], torch.int64))
    assert len(history.entry_event) == pool
    assert history.entry_event.dtype == torch.int64
    assert rows(history.before(*asked, 9)) == [past(events[:5], 0, 9)]
    assert rows(history._before(*asked, 9, "recent", None)) == [past(events[:5], 0, 9)]
    assert History.from_stream(stream_of(events)).entry_event.dtype == torch.int64


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_grows_on_its_own(copied: Callable[[History], History]) -> None:
    events: list[Event] = [(0, 1, t) for t in range(5)]
    history = History.from_stream(stream_of(events[:2]))
    history.append(*tensors(events[2:3], torch.int64))  # with room to spare, so that nothing moves later
    asked = torch.tensor([0]), torch.tensor([9])
    history.before(*asked, 9)
    other = copied(history)
    other.append(*tensors(events[3:], torch.int64))
    assert rows(history.before(*asked, 9)) == [past(events[:3], 0, 9)]
    assert rows(other.before(*asked, 9)) == [past(events, 0, 9)]
    assert rows(other._before(*asked, 9, "recent", None)) == [past(events, 0, 9)]


def test_nothing_appended_is_nothing_changed() -> None:
    history = History.from_stream(stream_of([(0, 1, 5)]))
    none = torch.empty(0, dtype=torch.int64)
    history.append(none, none, none)
    assert (history.num_events, history.num_nodes) == (1, NODES)


def test_unknown_nodes_are_taken_in() -> None:
    history = History.from_stream(stream_of([(0, 1, 5)], num_nodes=2))
    history.append(torch.tensor([7]), torch.tensor([1]), torch.tensor([6]))
    assert history.num_nodes == 8
    assert rows(history.before(torch.tensor([1, 7, 5]), torch.tensor([9, 9, 9]), 3)) == [
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
def test_appending_moves_each_entry_a_bounded_number_of_times(
    hub: bool, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Amortised O(1): entries and node rows that are copied or reserved stay in proportion."""
    if not compiled:
        monkeypatch.setattr(dispatch, "_enabled", False)
    history = History.empty(time_dtype=torch.int64)
    copied = 0
    events = 300
    for i in range(events):
        starts, lengths = history.start.clone(), history.length.clone()
        pool, rows_ptr, nodes = history.entry_event.data_ptr(), history.start.data_ptr(), history.num_nodes
        used = history.pool_used
        src = 0 if hub else i  # one node that meets every other, or only strangers
        history.append(torch.tensor([src]), torch.tensor([i + 1]), torch.tensor([i]))
        moved = history.start[: len(starts)] != starts
        copied += int(lengths[moved].sum())
        copied += used if history.entry_event.data_ptr() != pool else 0
        copied += nodes if history.start.data_ptr() != rows_ptr else 0
    entries = 2 * events
    assert copied <= 12 * entries
    assert history.pool_used <= 4 * entries
    assert len(history.entry_event) <= 8 * entries
    assert len(history.start) <= 2 * history.num_nodes


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "time goes back": ({"t": torch.tensor([5, 8, 9])}, "times go back"),
    "time goes back inside": ({"t": torch.tensor([9, 11, 10])}, "times go back"),
    "nan": ({"t": torch.tensor([9, 10, torch.nan]).double()}, "not finite"),
    "infinite": ({"t": torch.tensor([9, 10, torch.inf]).double()}, "not finite"),
    "float32": ({"t": torch.tensor([9.0, 10.0, 11.0])}, "float32 loses seconds"),
    "a half": ({"t": torch.tensor([9.0, 10.0, 10.5]).double()}, "counts time in torch.int64"),
    "lengths differ": ({"dst": torch.tensor([1, 2])}, "one length"),
    "negative node": ({"src": torch.tensor([1, -1, 2])}, "a node is not in 0..2,147,483,646"),
    "huge node": ({"dst": torch.tensor([1, 2**31, 2])}, "a node is not in 0..2,147,483,646"),
    "float node": ({"dst": torch.tensor([1.0, 2.0, 3.0])}, "nodes are torch.float32"),
    "no features": ({"features": None}, r"expected features of shape \[3, 2\], got None"),
    "wide features": ({"features": torch.zeros(3, 4)}, r"expected features of shape \[3, 2\], got \[3, 4\]"),
    "nan feature": ({"features": torch.full((3, 2), torch.nan)}, "feature is not finite"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_append_leaves_everything_as_it_was(case: str) -> None:
    change, told = REFUSED[case]
    stream = stream_of([(0, 1, 5), (2, 0, 8)])
    history = History.from_stream(
        EventStream(
            stream.src, stream.dst, stream.t, stream.ids, edge_features=np.ones((2, 2), dtype=np.float32)
        )
    )
    before = {name: array.clone() for name, array in history._arrays().items()}
    rows = {
        "src": torch.tensor([1, 7, 2]),
        "dst": torch.tensor([3, 4, 2]),
        "t": torch.tensor([9, 10, 11]),
        "features": torch.zeros(3, 2),
    }
    with pytest.raises(DataError, match=told):
        history.append(**(rows | change))
    assert {name: array.tolist() for name, array in history._arrays().items()} == {
        name: array.tolist() for name, array in before.items()
    }
    assert (history.num_nodes, history.longest, history.pool_used) == (NODES, 2, 4)
    history.append(**rows)  # and it can still be used
    assert history.count_before(torch.tensor([2, 7]), torch.tensor([99, 99])).tolist() == [2, 1]


def test_features_are_refused_where_events_have_none() -> None:
    history = History.from_stream(stream_of([(0, 1, 5)]))
    with pytest.raises(DataError, match=r"expected features of shape None, got \[1, 2\]"):
        history.append(torch.tensor([0]), torch.tensor([1]), torch.tensor([6]), torch.zeros(1, 2))
    assert history.num_events == 1


# -- views -----------------------------------------------------------------------------------------


@settings(deadline=None)
@given(event_lists(least=1), st.data())
def test_only_is_the_history_of_those_events(events: list[Event], data: st.DataObject) -> None:
    keep = [i for i in range(len(events)) if data.draw(st.booleans())]
    view = History.from_stream(stream_of(events)).only(np.array(keep, dtype=np.int64))
    nodes, times = every_query(NODES, events[-1][2])
    expected = [past(events, v, t, keep)[:4] for v, t in zip(nodes.tolist(), times.tolist(), strict=True)]
    assert rows(view.before(nodes, times, 4)) == expected
    assert view.numbers().tolist() == keep


def test_a_view_and_its_whole_grow_apart() -> None:
    whole = History.from_stream(stream_of([(0, 1, 1), (0, 2, 2), (0, 3, 3)]))
    view = whole.only(np.array([1]))
    asked = torch.tensor([0]), torch.tensor([99])
    whole.append(torch.tensor([0]), torch.tensor([4]), torch.tensor([4]))
    assert rows(view.before(*asked, 9)) == [[(2, 1, 2)]]
    view.append(torch.tensor([0]), torch.tensor([5]), torch.tensor([5]))
    whole.append(torch.tensor([0]), torch.tensor([1]), torch.tensor([6]))
    assert rows(view.before(*asked, 9)) == [[(5, 4, 5), (2, 1, 2)]]
    assert rows(whole.before(*asked, 9)) == [[(1, 5, 6), (4, 3, 4), (3, 2, 3), (2, 1, 2), (1, 0, 1)]]


@pytest.mark.parametrize(
    "numbers", [np.array([1, 0]), np.array([0, 0]), np.array([0, 2]), np.array([-1, 0]), np.array([True])]
)
def test_a_view_of_what_is_no_list_of_events_is_refused(numbers: np.ndarray) -> None:
    history = History.from_stream(stream_of([(0, 1, 1), (0, 2, 2)]))
    with pytest.raises(DataError, match="ascending event positions below 2"):
        history.only(numbers)


# -- keeping ---------------------------------------------------------------------------------------


def grown_history(width: int = 3) -> History:
    """One with spare room at every end."""
    stream = random_stream(np.random.default_rng(8), events=40, num_nodes=11, width=width)
    history = History.from_stream(stream[:7])
    rest = stream[7:]
    columns = [rest.src, rest.dst, rest.t] + ([] if rest.edge_features is None else [rest.edge_features])
    history.append(*(torch.from_numpy(x.copy()) for x in columns))
    history.append(torch.tensor([13]), torch.tensor([2]), torch.tensor([30]), *[torch.ones(1, width)][:width])
    return history


@pytest.mark.parametrize("mapped", [True, False])
@pytest.mark.parametrize("width", [0, 3])
def test_what_is_saved_is_loaded_bit_for_bit(tmp_path: Path, mapped: bool, width: int) -> None:
    history = grown_history(width)
    history.save(tmp_path / "deep" / "history")
    loaded = History.load(tmp_path / "deep" / "history", mapped=mapped)
    saved, found = history._arrays(), loaded._arrays()
    assert saved.keys() == found.keys()
    assert all(torch.equal(saved[name], found[name]) for name in saved)
    assert all(saved[name].dtype == found[name].dtype for name in saved)
    sizes = ("num_nodes", "num_events", "longest", "pool_used")
    assert all(getattr(history, name) == getattr(loaded, name) for name in sizes)
    assert len(loaded.start) == loaded.num_nodes < len(history.start)  # spare room is not written
    assert len(loaded.entry_node) == loaded.pool_used < len(history.entry_node)
    nodes, times = every_query(14, 31)
    assert_same(loaded.before(nodes, times, 5), history.before(nodes, times, 5))


@pytest.mark.parametrize("mapped", [True, False])
def test_an_empty_history_is_kept_too(tmp_path: Path, mapped: bool) -> None:
    History.empty(3, edge_width=2).save(tmp_path)
    loaded = History.load(tmp_path, mapped=mapped)
    assert (loaded.num_nodes, loaded.num_events) == (3, 0)
    loaded.append(torch.tensor([0]), torch.tensor([2]), torch.tensor([1.5]).double(), torch.ones(1, 2))
    assert rows(loaded.before(torch.tensor([2]), torch.tensor([2]), 1)) == [[(0, 0, 1.5)]]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_appending_to_a_mapped_history_leaves_the_files_alone(tmp_path: Path) -> None:
    history = grown_history()
    history.save(tmp_path)
    files = contents(tmp_path)
    mapped = History.load(tmp_path)
    for grown in (mapped, history):
        for i in range(12):  # into spare room, then beyond it
            grown.append(torch.tensor([2]), torch.tensor([i]), torch.tensor([40 + i]), torch.ones(1, 3))
    nodes, times = every_query(14, 60)
    assert_same(mapped.before(nodes, times, 9), history.before(nodes, times, 9))
    assert contents(tmp_path) == files


def test_saving_again_replaces_the_old_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    History.from_stream(stream_of([(0, 1, 5)])).save(tmp_path)
    first = contents(tmp_path)
    mapped = History.load(tmp_path)
    mapped.append(torch.tensor([0]), torch.tensor([3]), torch.tensor([6]))
    mapped.save(tmp_path)  # over the files it is mapped from
    assert rows(mapped.before(torch.tensor([0]), torch.tensor([9]), 2)) == [[(3, 1, 6), (1, 0, 5)]]
    assert rows(History.load(tmp_path).before(torch.tensor([0]), torch.tensor([9]), 2)) == [
        [(3, 1, 6), (1, 0, 5)]
    ]
    assert len(contents(tmp_path)) == len(first)
    assert contents(tmp_path)["notes.txt"] == b"mine"


def test_a_save_that_fails_leaves_the_old_history_and_no_scraps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    History.from_stream(stream_of([(0, 1, 5)])).save(tmp_path)
    files = contents(tmp_path)
    save, written = np.save, []

    def full_disk(path: Path, array: np.ndarray) -> None:
        if len(written) == 4:
            path.write_bytes(b"half")
            raise OSError("no space left on device")
        written.append(path)
        save(path, array)

    monkeypatch.setattr(np, "save", full_disk)
    with pytest.raises(OSError, match="no space left"):
        grown_history().save(tmp_path)
    assert len(written) == 4
    assert contents(tmp_path) == files
    assert History.load(tmp_path).num_events == 1


def test_what_is_no_saved_history_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not hold a whole saved history"):
        History.load(tmp_path / "absent")
    history = History.from_stream(stream_of([(0, 1, 5)]))
    history.save(tmp_path)
    next(tmp_path.glob("entry_node*")).unlink()
    with pytest.raises(DataError, match="entry_node"):
        History.load(tmp_path)
    (tmp_path / "history.json").write_text("{}")
    with pytest.raises(DataError, match="save it again"):
        History.load(tmp_path)
    history.save(tmp_path)
    assert History.load(tmp_path).num_events == 1


def test_the_index_is_small() -> None:
    stream = random_stream(np.random.default_rng(2), events=5000, num_nodes=40)
    history = History.from_stream(stream)
    entries = 2 * len(stream) - int((stream.src == stream.dst).sum())
    assert history.nbytes() == 16 * entries + 24 * 40  # int32 event, int32 node, int64 time; three per node


# -- on a GPU --------------------------------------------------------------------------------------


def test_many_queries_are_answered_in_parts_that_fit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """An uneven number of queries on three threads, against the torch operations on one."""
    rng = np.random.default_rng(8)
    t = np.sort(rng.integers(0, 300, 900))
    stream = EventStream.from_arrays(rng.integers(0, 13, 900), rng.integers(0, 13, 900), t)
    history = History.from_stream(stream)
    nodes = torch.from_numpy(rng.integers(0, 15, 13_001))
    times = torch.from_numpy(rng.integers(-2, 305, 13_001))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    found = history.before(nodes, times, 4)
    for ours, plain in zip(found, history._before(nodes, times, 4, "recent", None), strict=True):
        assert torch.equal(ours, plain)


@pytest.mark.gpu
def test_the_gpu_gives_what_the_cpu_gives() -> None:
    stream = random_stream(np.random.default_rng(9), events=500, num_nodes=31, width=3)
    cpu, gpu = History.from_stream(stream[:300]), History.from_stream(stream[:300], device="cuda")
    for low, high in [(300, 301), (301, 430), (430, 500)]:
        part = stream[low:high]
        columns = [torch.from_numpy(x.copy()) for x in (part.src, part.dst, part.t, part.edge_features)]
        cpu.append(*columns)
        gpu.append(*(x.cuda() for x in columns))
    nodes, times = every_query(31, 250)
    assert_same(gpu.before(nodes.cuda(), times.cuda(), 7), cpu.before(nodes, times, 7))
    kept = np.arange(0, 500, 3)
    assert_same(gpu.only(kept).before(nodes.cuda(), times.cuda(), 7), cpu.only(kept).before(nodes, times, 7))
    strange, between = torch.tensor([-1, 31, 99, 4, 0]), torch.tensor([3.5, 9.0, 99.5, 120.25, -1.0])
    for k in (1, 4, 33):
        asked = strange, between.double()
        assert_same(gpu.before(*(x.cuda() for x in asked), k), cpu.before(*asked, k))
        there = cpu.pinned(torch.device("cuda")).before(*(x.cuda() for x in asked), k)
        assert_same(there, cpu.before(*asked, k))
    drawn = gpu.before(nodes.cuda(), times.cuda(), 4, "uniform", torch.Generator("cuda").manual_seed(1))
    assert torch.equal(drawn.mask.sum(dim=1).cpu(), cpu.count_before(nodes, times).clamp(max=4))
    assert bool((drawn.time[drawn.mask] < times.cuda().unsqueeze(1).expand(-1, 4)[drawn.mask]).all())
