"""Walks and replays against plain loops over lists of events."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.ledger import NODES, Ledger, accounts_after, batches_of, stream_at
from support.problems import case, random_stream, shape_of
from torch import Tensor

from contig.data.events import EventStream
from contig.history import History
from contig.models import EventBatch
from contig.models.state import Room
from contig.streaming.packing import Counts
from contig.streaming.walker import Walker, replay

TIMES = st.lists(st.integers(0, 9), min_size=1, max_size=24).map(sorted)
SIZES = st.integers(1, 7)
many = settings(max_examples=40, deadline=None)


def walker_over(stream: EventStream, size: int, read: Any = None, learn: Any = None) -> Walker:
    model = Ledger()
    return Walker(model, model.new_state(NODES), History.from_stream(stream), size, read, learn)


# -- the order of a step -----------------------------------------------------------------------------------


@many
@given(TIMES, SIZES)
def test_a_batch_is_read_then_learned_from_then_observed(times: list[int], size: int) -> None:
    stream = stream_at(times)
    model = Ledger()

    def read(batch: EventBatch) -> Tensor:
        model.log.append(("read", batch.event.tolist()))
        return batch.event

    def learn(events: Tensor) -> Tensor:
        model.log.append(("learn", events.tolist()))
        return -events

    walker = Walker(model, model.new_state(NODES), History.from_stream(stream), size, read, learn)
    results = walker.read_all(np.arange(len(times)))
    expected: list[tuple[str, list[int]]] = []
    for batch, observed in batches_of(stream, range(len(times)), size):
        expected += [("read", batch), ("learn", batch), ("observe", observed)]
    assert model.log == expected
    assert results.tolist() == [-e for e in range(len(times))]  # what learn returns


def test_a_batch_is_read_with_the_old_weights_and_observed_with_the_new() -> None:
    stream = stream_at([0, 1, 2, 3, 4, 5, 6])
    walker = walker_over(stream, 2, lambda batch: walker.model.weight.detach().repeat(len(batch.event)))

    def learn(weights: Tensor) -> Tensor:
        with torch.no_grad():
            walker.model.weight += 1
        return weights

    walker._learn = learn
    before_each_step = walker.read_all(np.arange(7))
    assert before_each_step.tolist() == [0, 0, 1, 1, 2, 2, 3]
    last_batch = [max((e for e in range(7) if v in (stream.src[e], stream.dst[e])), default=-2) // 2
                  for v in range(NODES)]  # fmt: skip
    assert walker.state["weight"].tolist() == [number + 1 if number >= 0 else -1 for number in last_batch]


def test_what_is_read_is_the_state_before_the_batch() -> None:
    """A real model's state: the latest event of each node is one of those observed by then."""
    stream = random_stream(2, events=31)
    model, history = case("tgn", shape_of(stream)), History.from_stream(stream)
    state = model.new_state(stream.num_nodes)

    def read(batch: EventBatch) -> Tensor:
        assert not torch.is_grad_enabled()
        assert not model.training
        return torch.stack([batch.event, state["last"][batch.src], state["last"][batch.dst]], dim=1)

    progress: list[int] = []
    found = Walker(model.train(), state, history, 6, read).read_all(np.arange(31), progress.append)
    assert progress == [6, 6, 6, 6, 6, 1]
    assert found[:, 0].tolist() == list(range(31))
    for event in range(31):
        first = event // 6 * 6  # of its batch
        for column, node in ((1, stream.src[event]), (2, stream.dst[event])):
            known = [j for j in range(first) if stream.t[j] < stream.t[first]]
            latest = max((j for j in known if node in (stream.src[j], stream.dst[j])), default=-1)
            assert found[event, column] == latest


def test_no_events_give_no_rows() -> None:
    walker = walker_over(stream_at([0, 1]), 6, lambda batch: batch.t)
    assert walker.read_all(np.arange(0), shape=(3, 2)).shape == (0, 3, 2)
    assert walker.state.position == 0


# -- where a walk has come to ------------------------------------------------------------------------------


@many
@given(TIMES, SIZES, st.data())
def test_the_position_follows_the_latest_observed_event(
    times: list[int], size: int, data: st.DataObject
) -> None:
    """Step by step, also where batches end inside a tie, and for some of a stream's events alone."""
    stream = stream_at(times)
    chosen = sorted(data.draw(st.sets(st.sampled_from(range(len(times))), min_size=1)))
    walker = walker_over(stream, size)
    walker.start(np.array(chosen))
    observed: list[list[int]] = []
    for number, (_, ready) in enumerate(batches_of(stream, chosen, size)):
        with torch.no_grad():
            walker.step(number)
        observed.append(ready)
        latest = max((e for batch in observed for e in batch), default=-1)
        assert walker.state.position == latest + 1
        assert walker.state["account"].tolist() == accounts_after(stream, observed)
    assert walker.state.position == chosen[-1] + 1


def test_the_position_by_hand() -> None:
    """Seven events, four of them at once, in batches of two."""
    walker = walker_over(stream_at([1, 2, 2, 2, 2, 3, 3]), 2)
    walker.start(np.arange(7))
    positions = []
    for number in range(4):
        with torch.no_grad():
            walker.step(number)
        positions.append(walker.state.position)
    assert positions == [1, 1, 5, 7]


def test_a_second_walk_continues_from_the_first() -> None:
    """Its first batches are inside a tie and observe nothing, so the position stays."""
    stream = stream_at([0, 0, 1, 5, 5, 5, 6])
    walker = walker_over(stream, 1)
    walker.read_all(np.arange(3))
    assert walker.state.position == 3
    walker.start(np.arange(3, 7))
    positions = []
    for number in range(4):
        with torch.no_grad():
            walker.step(number)
        positions.append(walker.state.position)
    assert positions == [3, 3, 6, 7]
    assert walker.state["account"].tolist() == accounts_after(stream, [[0, 1], [2], [3, 4, 5], [6]])


# -- replay ------------------------------------------------------------------------------------------------


@many
@given(TIMES, SIZES, st.data())
def test_a_replay_is_a_walk_that_reads_nothing(times: list[int], size: int, data: st.DataObject) -> None:
    stream = stream_at(times)
    chosen = sorted(data.draw(st.sets(st.sampled_from(range(len(times))))))
    walker = walker_over(stream, size, lambda batch: batch.t)
    walker.read_all(np.array(chosen, dtype=np.int64))
    model, progress = Ledger().train(), []
    state = model.new_state(NODES)
    replay(model, state, History.from_stream(stream), np.array(chosen, dtype=np.int64), size, progress.append)
    observed = [ready for _, ready in batches_of(stream, chosen, size)]
    assert state["account"].tolist() == walker.state["account"].tolist() == accounts_after(stream, observed)
    assert state.position == walker.state.position == (chosen[-1] + 1 if chosen else 0)
    assert model.log == walker.model.log
    assert sum(progress) == len(chosen)
    assert not (chosen and model.training)


# -- regular and irregular batches -------------------------------------------------------------------------


class ReusedMemory:
    """Runs regular batches by a tensor and leaves their results in one place, as a recorded step does."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker
        self.by_tensor: list[int] = []
        self.result: Tensor | None = None

    def __call__(self, number: int, *, regular: bool) -> Tensor:
        if not regular:
            return self.walker._eager_step(number)
        self.by_tensor.append(number)
        found = self.walker._fast_step(torch.tensor([number]))
        self.result = found.clone() if self.result is None else self.result.copy_(found)
        return self.result


@pytest.mark.parametrize("counts", [None, [130, 400, 131, 17, 20, 256, 5]])
def test_results_come_in_order_whatever_the_shape_of_a_batch(counts: list[int] | None) -> None:
    """Batches of four: one observes nothing, the next too much, the last one is short."""
    times = [*range(8), 8, 8, 8, 8, 8, *range(9, 16), *range(15, 24)]
    stream = stream_at(times)
    rooms: dict[int, Room] = {}

    def read(batch: EventBatch) -> Tensor:
        rooms[int(batch.event[0]) // 4] = walker.state.room
        return torch.stack([batch.event, batch.src, batch.t], dim=1)

    walker = walker_over(stream, 4, read)
    memory = ReusedMemory(walker)
    walker.captured = memory  # type: ignore[assignment]
    if counts is not None:
        walker.expect(Counts(np.array([200])))  # the first counts decide the room: 256 nodes
    known = None if counts is None else Counts(np.array(counts))
    found = walker.read_all(np.arange(len(times)), counts=known)
    assert found.tolist() == [list(row) for row in zip(range(len(times)), stream.src, times, strict=True)]
    batches = [ready for _, ready in batches_of(stream, range(len(times)), 4)]
    assert [len(batch) for batch in batches] == [4, 4, 0, 8, 3, 5, 4, 1]
    regular = [0, 1, 4, 5, 6] if counts is None else [0, 4, 5, 6]
    assert memory.by_tensor == regular
    room = Room() if counts is None else Room(read=256)
    assert rooms == {number: room if number in regular else Room() for number in range(len(batches))}
    assert walker.state["account"].tolist() == accounts_after(stream, batches)
    assert walker.state.position == len(times)
