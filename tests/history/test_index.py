"""Queries of a history against Python lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
    stream_of,
)

from contig.data.events import EventStream
from contig.errors import ConfigError, DataError
from contig.history import History

CPU = torch.device("cpu")


@settings(deadline=None)
@given(event_lists(), st.integers(1, 7), st.booleans(), st.booleans())
def test_recent_events_are_the_last_of_the_past(
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
    assert entries(answer) == [found[:k] for found in expected]
    assert history.count_before(nodes, times).tolist() == [len(found) for found in expected]
    assert answer.time.dtype == history.events["t"].dtype
    assert_same(answer, reference(history, nodes, times, k))


@settings(deadline=None)
@given(event_lists(min_size=1), st.integers(0, 30))
def test_events_at_or_after_a_time_change_nothing(events: list[Event], now: int) -> None:
    nodes = torch.arange(-1, NODES + 1)
    times = torch.full_like(nodes, now)
    earlier = [e for e in events if e[2] < now]
    answers = [History.from_stream(stream_of(x)).before(nodes, times, 4) for x in (events, earlier)]
    assert_same(*answers)


def test_padding_repeats_the_query() -> None:
    history = History.from_stream(stream_of([(0, 1, 5), (2, 0, 8)]))
    answer = history.before(torch.tensor([0, 4, 99, -3]), torch.tensor([8, 9, 10, 11]), k=3)
    assert answer.mask.tolist() == [[True, False, False], [False] * 3, [False] * 3, [False] * 3]
    assert answer.node.tolist() == [[1, 0, 0], [4] * 3, [99] * 3, [-3] * 3]
    assert answer.event.tolist() == [[0, 0, 0], [0] * 3, [0] * 3, [0] * 3]
    assert answer.time.tolist() == [[5, 8, 8], [9] * 3, [10] * 3, [11] * 3]


def test_integer_times_beyond_float_precision_are_distinct() -> None:
    """Nanoseconds since 1970: consecutive ones are equal as floats."""
    now = 1_700_000_000_000_000_001
    history = History.from_stream(stream_of([(0, 1, now - 1), (0, 2, now), (0, 3, now + 1)]))
    times = torch.tensor([now - 1, now, now + 1])
    assert history.count_before(torch.tensor([0, 0, 0]), times).tolist() == [0, 1, 2]


@pytest.mark.parametrize("float_times", [False, True])
def test_infinite_times_and_nan(float_times: bool) -> None:
    history = History.from_stream(stream_of([(0, 1, -3), (1, 0, 4)], float_times=float_times))
    nodes, times = torch.tensor([0, 0, 0]), torch.tensor([torch.inf, -torch.inf, torch.nan]).double()
    assert history.count_before(nodes, times).tolist() == [2, 0, 0]
    assert history.before(nodes, times, 5).mask.sum(dim=1).tolist() == [2, 0, 0]


def test_strided_and_narrow_queries_give_the_same_answer() -> None:
    history = History.from_stream(stream_of([(i % 3, 3 + i % 2, i // 2) for i in range(17)]))
    nodes, times = torch.arange(12) % 5, torch.arange(12)
    expected = history.before(nodes, times, 3)
    columns = torch.stack([nodes, times], dim=1)
    assert_same(history.before(columns[:, 0], columns[:, 1], 3), expected)
    assert_same(history.before(nodes.int(), times.int(), 3), expected)


def test_queries_shared_among_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """An uneven number of queries on three threads, against torch operations."""
    rng = np.random.default_rng(8)
    history = History.from_stream(random_stream(rng, events=900, num_nodes=13))
    nodes = torch.from_numpy(rng.integers(0, 15, 13_001))
    times = torch.from_numpy(rng.integers(-2, 455, 13_001))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert_same(history.before(nodes, times, 4), reference(history, nodes, times, 4))


def test_a_real_stream_against_lists(real_stream: Callable[[str], EventStream]) -> None:
    stream = real_stream("enron")  # the one with the most ties
    lists: list[list[tuple[int, int, int]]] = [[] for _ in range(stream.num_nodes)]
    columns = (stream.src.tolist(), stream.dst.tolist(), stream.t.tolist())
    for i, (s, d, t) in enumerate(zip(*columns, strict=True)):
        lists[s].append((d, i, t))
        if s != d:
            lists[d].append((s, i, t))
    rng = np.random.default_rng(3)
    nodes = torch.from_numpy(rng.integers(0, stream.num_nodes, 300))
    times = torch.from_numpy(rng.choice(stream.t, 300))
    answer = History.from_stream(stream).before(nodes, times, 15)
    for v, time, found in zip(nodes.tolist(), times.tolist(), entries(answer), strict=True):
        assert found == [x for x in lists[v] if x[2] < time][::-1][:15]


@pytest.mark.parametrize(
    ("option", "message"), [({"k": 0}, "k=0"), ({"how": "uniforn"}, "Did you mean 'uniform'")]
)
def test_invalid_options_are_refused(option: dict[str, Any], message: str) -> None:
    options: dict[str, Any] = {"k": 2, "how": "recent"} | option
    with pytest.raises(ConfigError, match=message):
        History.empty(3).before(torch.tensor([0]), torch.tensor([0]), **options)


def test_the_index_is_small() -> None:
    stream = random_stream(np.random.default_rng(2), events=5000, num_nodes=40)
    history = History.from_stream(stream)
    count = 2 * len(stream) - int((stream.src == stream.dst).sum())
    assert history.nbytes() == 16 * count + 24 * 40  # int32 event, int32 node, int64 time; three per node


# -- restricted histories --------------------------------------------------------------------------


@settings(deadline=None)
@given(event_lists(min_size=1), st.data())
def test_only_is_the_history_of_those_events(events: list[Event], data: st.DataObject) -> None:
    chosen = [i for i in range(len(events)) if data.draw(st.booleans())]
    part = History.from_stream(stream_of(events)).only(np.array(chosen, dtype=np.int64))
    nodes, times = every_query(NODES, events[-1][2])
    expected = [past(events, v, t, chosen)[:4] for v, t in zip(nodes.tolist(), times.tolist(), strict=True)]
    assert entries(part.before(nodes, times, 4)) == expected
    assert part.event_indices().tolist() == chosen


def test_a_restricted_history_and_the_whole_grow_independently() -> None:
    whole = History.from_stream(stream_of([(0, 1, 1), (0, 2, 2), (0, 3, 3)]))
    part = whole.only(np.array([1]))
    query = torch.tensor([0]), torch.tensor([99])
    whole.append(torch.tensor([0]), torch.tensor([4]), torch.tensor([4]))
    assert entries(part.before(*query, 9)) == [[(2, 1, 2)]]
    part.append(torch.tensor([0]), torch.tensor([5]), torch.tensor([5]))
    whole.append(torch.tensor([0]), torch.tensor([1]), torch.tensor([6]))
    assert entries(part.before(*query, 9)) == [[(5, 4, 5), (2, 1, 2)]]
    assert entries(whole.before(*query, 9)) == [[(1, 5, 6), (4, 3, 4), (3, 2, 3), (2, 1, 2), (1, 0, 1)]]


@pytest.mark.parametrize("chosen", [[1, 0], [0, 0], [0, 2], [-1, 0], [True]], ids=str)
def test_invalid_event_positions_are_refused(chosen: list[int]) -> None:
    history = History.from_stream(stream_of([(0, 1, 1), (0, 2, 2)]))
    with pytest.raises(DataError, match="event positions below 2 in ascending order"):
        history.only(np.array(chosen))


# -- in pinned memory ------------------------------------------------------------------------------


def test_a_pinned_copy_gives_the_same_answers_and_cannot_grow() -> None:
    stream = random_stream(np.random.default_rng(3), events=60, num_nodes=9, width=2)
    plain = History.from_stream(stream)
    pinned = plain.pinned_copy(CPU)
    nodes, times = every_query(9, 30)
    assert_same(pinned.before(nodes, times, 4), plain.before(nodes, times, 4))
    assert torch.equal(pinned.events["features"], plain.events["features"])
    with pytest.raises(DataError, match="cannot grow"):
        pinned.append(nodes[:1], nodes[1:2], torch.tensor([99]), torch.zeros(1, 2))
    assert pinned.num_events == 60


def test_a_history_without_features_can_be_pinned() -> None:
    pinned = History.from_stream(stream_of([(0, 1, 2), (1, 2, 5)], 3)).pinned_copy(CPU)
    answer = pinned.before(torch.tensor([1]), torch.tensor([6]), 2)
    assert (answer.node.tolist(), answer.time.tolist()) == ([[2, 0]], [[5, 2]])


# -- on a GPU --------------------------------------------------------------------------------------


@pytest.mark.gpu
def test_a_gpu_gives_the_answers_of_a_cpu() -> None:
    stream = random_stream(np.random.default_rng(9), events=500, num_nodes=31, width=3)
    cpu, gpu = History.from_stream(stream[:300]), History.from_stream(stream[:300], device="cuda")
    for low, high in [(300, 301), (301, 430), (430, 500)]:
        part = stream[low:high]
        columns = [torch.from_numpy(x.copy()) for x in (part.src, part.dst, part.t, part.edge_features)]
        cpu.append(*columns)
        gpu.append(*(x.cuda() for x in columns))
    nodes, times = every_query(31, 250)
    assert_same(gpu.before(nodes.cuda(), times.cuda(), 7), cpu.before(nodes, times, 7))
    chosen = np.arange(0, 500, 3)
    answers = gpu.only(chosen).before(nodes.cuda(), times.cuda(), 7), cpu.only(chosen).before(nodes, times, 7)
    assert_same(*answers)
    query = torch.tensor([-1, 31, 99, 4, 0]), torch.tensor([3.5, 9.0, 99.5, 120.25, -1.0]).double()
    for k in (1, 4, 33):
        on_gpu = [x.cuda() for x in query]
        assert_same(gpu.before(*on_gpu, k), cpu.before(*query, k))
        assert_same(cpu.pinned_copy(torch.device("cuda")).before(*on_gpu, k), cpu.before(*query, k))
    drawn = gpu.before(nodes.cuda(), times.cuda(), 4, "uniform", torch.Generator("cuda").manual_seed(1))
    assert torch.equal(drawn.mask.sum(dim=1).cpu(), cpu.count_before(nodes, times).clamp(max=4))
    assert bool((drawn.time[drawn.mask] < times.cuda().unsqueeze(1).expand(-1, 4)[drawn.mask]).all())
