"""The nodes that a batch computes, counted against sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from support.problems import case, random_stream, shape_of, tiny

from contig.data.events import EventStream
from contig.history import History
from contig.models import EventBatch
from contig.models.bases.links import links_of
from contig.models.contig import ConTIG
from contig.models.state import Room
from contig.streaming import packing
from contig.streaming.packing import (
    GRANULARITY,
    Counts,
    Rooms,
    count_each_batch,
    count_nodes,
    fits,
    rooms_needed,
)
from contig.streaming.schedule import observe_size, schedule

NODES = 30


def past(stream: EventStream, node: int, time: float) -> list[tuple[int, int]]:
    """The events of a node before a time and its partners in them, the most recent first."""
    ends = enumerate(zip(stream.src.tolist(), stream.dst.tolist(), stream.t.tolist(), strict=True))
    found = [(i, v if u == node else u) for i, (u, v, t) in ends if node in (u, v) and t < time]
    return found[::-1]


def read_by(stream: EventStream, events: range, negative: np.ndarray, neighbors: int) -> set[int]:
    """The nodes of some events and negatives, and their latest partners."""
    read: set[int] = set()
    for event in events:
        for node in (stream.src[event], stream.dst[event], *negative[event]):
            partners = [other for _, other in past(stream, node, stream.t[event])]
            read |= {int(node), *partners[:neighbors]}
    return read


def with_links(stream: EventStream, nodes: set[int], time: float, namers: int) -> set[int]:
    """The nodes, their latest partners, and those that have them as latest partners."""
    found: set[int] = set()
    for node in nodes:
        own = past(stream, node, time)
        named_by = {other for event, other in own[:namers] if past(stream, other, time)[0][0] == event}
        found |= {node, *(other for _, other in own[:1]), *named_by}
    return found


@pytest.mark.parametrize("at_once", [1, 10**9])
@pytest.mark.parametrize("name", ["contig", "tgn"])
def test_counts_equal_the_sizes_of_sets(name: str, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "MENTIONS_AT_ONCE", at_once)
    stream = random_stream(4, events=43, num_nodes=NODES)
    model, history = case(name, shape_of(stream)), History.from_stream(stream)
    negative = np.random.default_rng(0).integers(0, NODES, (43, 2))
    state = model.new_state(NODES)
    found = count_each_batch(model, state, history, torch.arange(43), torch.from_numpy(negative), 5)
    batches = [range(start, start + 5) for start in range(0, 40, 5)]  # the short last batch is not counted
    expected = [len(read_by(stream, batch, negative, model.neighbors)) for batch in batches]
    assert found.read.tolist() == expected
    assert (found.linked is None) == (found.observed is None) == (name == "tgn")


@pytest.mark.parametrize("at_once", [1, 200, 10**9])
@pytest.mark.parametrize("namers", [2, 40])
def test_linked_nodes_are_counted_with_those_that_are_read(
    namers: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("MARKS_AT_ONCE", "MENTIONS_AT_ONCE", "NODES_AT_ONCE"):
        monkeypatch.setattr(packing, limit, at_once)
    stream = random_stream(4, events=83, num_nodes=NODES)
    model, history = (
        tiny("contig", shape_of(stream), scope="near", namers=namers),
        History.from_stream(stream),
    )
    negative = np.random.default_rng(0).integers(0, NODES, (83, 2))
    steps = schedule(stream.t, 3)
    found = count_each_batch(
        model, model.new_state(NODES), history, torch.arange(83), torch.from_numpy(negative), 3
    )
    linked, observed = [], []
    for step in steps:
        time = stream.t[step.start]
        if step.stop - step.start == 3:
            read = read_by(stream, range(step.start, step.stop), negative, model.neighbors)
            linked.append(len(with_links(stream, read, time, namers)))
        seen = slice(step.observe_from, step.observe_to)
        ends = {*stream.src[seen].tolist(), *stream.dst[seen].tolist()}
        observed.append(len(with_links(stream, ends, time, namers)))
    assert found.linked is not None
    assert found.observed is not None
    assert found.linked.tolist() == linked
    sizes = [step.observe_to - step.observe_from for step in steps[: len(linked)]]
    assert min(sizes) == 0
    assert max(sizes) > observe_size(3)
    captured = [size <= observe_size(3) for size in sizes]
    assert found.observed.tolist() == [n if ok else 0 for n, ok in zip(observed, captured, strict=False)]


@pytest.mark.parametrize(
    ("events", "only", "counted"),
    [
        (range(20, 60), None, True),
        ([*range(20, 40), *range(41, 61)], None, False),  # the state will not know event 40
        ([*range(0, 40, 2), *range(41, 61)], [*range(0, 40, 2), *range(41, 61)], True),
        ([*range(0, 40, 2), *range(41, 61)], [*range(0, 40, 2), *range(41, 62)], False),
    ],
)
def test_linked_nodes_are_counted_where_the_state_will_know_every_event(
    events: Sequence[int], only: list[int] | None, counted: bool
) -> None:
    stream = random_stream(4, events=83, num_nodes=9)
    assert (stream.src[events] == stream.dst[events]).any()
    model, history = tiny("contig", shape_of(stream), scope="near"), History.from_stream(stream)
    if only is not None:
        history = history.only(np.array(only))
    negative = torch.zeros(83, 1, dtype=torch.int64)
    walked = torch.tensor(events)
    found = count_each_batch(model, model.new_state(9), history, walked, negative[walked], 3)
    assert (found.linked is not None) == (found.observed is not None) == counted


def test_links_are_those_of_a_state_that_has_missed_events() -> None:
    """As in validation, before which the state knows the training events alone."""
    stream = random_stream(4, events=89, num_nodes=NODES)
    model, history = tiny("contig", shape_of(stream), scope="near"), History.from_stream(stream)
    assert isinstance(model, ConTIG)
    state = model.new_state(NODES)
    model.observe(state, history, EventBatch.of(history, torch.arange(0, 41, 3)))
    events = torch.arange(41, 89)
    negative = np.random.default_rng(0).integers(0, NODES, (89, 2))
    found = count_each_batch(model, state, history, events, torch.from_numpy(negative[41:]), 4)
    expected = []
    for step in schedule(stream.t[41:], 4):
        batch = range(41 + step.start, 41 + step.stop)
        read = torch.tensor(sorted(read_by(stream, batch, negative, model.neighbors)))
        links = links_of(model, state, history, read, history.events["t"][batch.start], model.opt.namers)
        expected.append(len({*read.tolist(), *links.node.flatten().tolist()}))
        observed = torch.arange(41 + step.observe_from, 41 + step.observe_to)
        model.observe(state, history, EventBatch.of(history, observed))
    assert found.linked is not None
    assert found.linked.tolist() == expected


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("contig", {"scope": "pair"}),
        ("contig", {"scope": "all"}),
        ("contig", {"scope": "near", "hops": 2}),
        ("contig", {"scope": "near", "without": "update"}),
        ("tgn", {}),
    ],
)
def test_links_that_nothing_follows_are_not_counted(model: str, settings: dict[str, Any]) -> None:
    stream = random_stream(4, events=40, num_nodes=NODES)
    built, history = tiny(model, shape_of(stream), **settings), History.from_stream(stream)
    negative = torch.zeros(40, 1, dtype=torch.int64)
    found = count_each_batch(built, built.new_state(NODES), history, torch.arange(40), negative, 5)
    assert found.linked is found.observed is None


def test_a_cpu_needs_no_counts() -> None:
    stream = random_stream(4)
    model, history = case("tgn", shape_of(stream)), History.from_stream(stream)
    negative = torch.zeros(40, 1, dtype=torch.int64)
    assert count_nodes(model, model.new_state(9), history, torch.arange(40), negative, 5) is None


def test_room_is_spare_and_uncounted_batches_do_not_fit() -> None:
    counts = Counts(np.array([3, 2 * GRANULARITY, 17]))
    rooms = rooms_needed(counts)
    assert rooms is not None
    room = rooms.reading.read
    assert room is not None
    assert room % GRANULARITY == 0
    assert 2 * GRANULARITY < room <= 1.25 * 2 * GRANULARITY + GRANULARITY
    assert rooms == Rooms(Room(read=room), Room())
    assert rooms_needed(None) is None
    small = Rooms(Room(read=17), Room())
    assert [fits(counts, i, small) for i in range(4)] == [True, False, True, False]
    assert fits(None, 0, None)
    assert not fits(None, 0, small)


def test_a_batch_must_fit_into_every_room() -> None:
    read, linked, observed = np.array([3, 3, 3, 9]), np.array([5, 99, 5, 9]), np.array([4, 4, 99, 4])
    counts = Counts(read, linked, observed)
    rooms = rooms_needed(Counts(read[:1], linked[:1], 50 * observed[:1]))
    assert rooms == Rooms(Room(GRANULARITY, GRANULARITY), Room(linked=2 * GRANULARITY))
    small = Rooms(Room(8, 10), Room(linked=10))
    assert [fits(counts, i, small) for i in range(4)] == [True, False, False, False]
    assert not fits(Counts(read), 0, small)
