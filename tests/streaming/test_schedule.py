"""The batches of a walk against a slow reference."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.problems import stream_of

from contig.errors import ConfigError
from contig.history import History
from contig.streaming.schedule import BatchSchedule, Step, schedule

TIMES = st.lists(st.integers(0, 12), max_size=40).map(sorted)


def reference(times: list[int], batch_size: int) -> list[tuple[list[int], list[int]]]:
    """Per batch the events scored and the events observed after it, one event at a time."""
    walk, observed = [], 0
    batches = [list(range(i, min(i + batch_size, len(times)))) for i in range(0, len(times), batch_size)]
    for number, batch in enumerate(batches):
        following = batches[number + 1][0] if number + 1 < len(batches) else None
        new = []
        while observed <= batch[-1] and (following is None or times[observed] < times[following]):
            new.append(observed)
            observed += 1
        walk.append((batch, new))
    return walk


@settings(max_examples=150, deadline=None)
@given(TIMES, st.integers(1, 9))
def test_the_schedule_equals_the_reference(times: list[int], batch_size: int) -> None:
    steps = schedule(np.array(times, dtype=np.int64), batch_size)
    found = [(list(range(s.start, s.stop)), list(range(s.observe_from, s.observe_to))) for s in steps]
    assert found == reference(times, batch_size)


@settings(max_examples=150, deadline=None)
@given(TIMES, st.integers(1, 9), st.booleans())
def test_a_batch_is_scored_before_any_event_of_its_time_is_observed(
    times: list[int], batch_size: int, real: bool
) -> None:
    column = np.array(times, dtype=np.float64 if real else np.int64)
    observed: list[int] = []
    scored: list[int] = []
    for step in schedule(column, batch_size):
        assert all(times[event] < times[step.start] for event in observed)
        assert 1 <= step.stop - step.start <= batch_size
        scored += range(step.start, step.stop)
        observed += range(step.observe_from, step.observe_to)
        assert set(observed) <= set(scored)  # nothing is observed before it is scored
    everything = list(range(len(times)))
    assert scored == everything  # each once, in order
    assert observed == everything


def test_a_schedule_by_hand() -> None:
    times = np.array([1, 2, 2, 2, 2, 3, 3])
    assert schedule(times, 2) == [Step(0, 2, 0, 1), Step(2, 4, 1, 1), Step(4, 6, 1, 5), Step(6, 7, 5, 7)]


def test_without_ties_every_batch_is_observed_whole() -> None:
    assert schedule(np.arange(5), 2) == [Step(0, 2, 0, 2), Step(2, 4, 2, 4), Step(4, 5, 4, 5)]


def test_no_events_make_no_batches() -> None:
    assert schedule(np.array([], dtype=np.int64), 3) == []


def test_an_empty_batch_is_refused() -> None:
    for size in (0, -1):
        with pytest.raises(ConfigError, match=f"batch_size={size}"):
            schedule(np.arange(5), size)
        with pytest.raises(ConfigError, match=f"batch_size={size}"):
            BatchSchedule(5, size, torch.device("cpu"))


def history_of(times: list[int]) -> History:
    return History.from_stream(stream_of([(0, 1, time) for time in times], 2))


@settings(max_examples=150, deadline=None)
@given(TIMES, TIMES, st.integers(1, 9))
def test_lookups_by_tensor_and_by_number_agree(before: list[int], times: list[int], batch_size: int) -> None:
    """After a reset too, which reuses the memory."""
    batches = BatchSchedule(40, batch_size, torch.device("cpu"))
    batches.reset(np.arange(len(before)), history_of(before))
    memory = batches.events.data_ptr()
    events = len(before) + np.arange(len(times))
    batches.reset(events, history_of([*before, *(13 + time for time in times)]))
    assert batches.events.data_ptr() == memory
    assert batches.steps == schedule(np.array(times, dtype=np.int64), batch_size)
    for number, step in enumerate(batches.steps):
        scored = events[step.start : step.stop].tolist()
        observed = events[step.observe_from : step.observe_to].tolist()
        assert batches.scored(number).tolist() == scored
        assert batches.observed(number).tolist() == observed
        whole = len(scored) == batch_size and 0 < len(observed) <= batches.observe_size
        assert batches.is_regular(number) is whole
        if whole:
            tensor = torch.tensor([number])
            assert batches.scored(tensor).tolist() == scored
            filled = observed + observed[-1:] * (batches.observe_size - len(observed))
            assert batches.observed(tensor).tolist() == filled
