"""Both sides are timed in alternation, after a warm-up."""

from __future__ import annotations

import itertools

import pytest
import torch

from contig.benchmarks import timing

CPU = torch.device("cpu")


class Recorder:
    """A stepper that records its calls: a rewind as -1, otherwise the number of steps."""

    def __init__(self, overhead: float) -> None:
        self.overhead, self.calls = overhead, list[int]()

    def rewind(self) -> None:
        self.calls.append(-1)

    def advance(self, steps: int) -> None:
        self.calls.append(steps)


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that advances by 12 seconds each time it is read."""
    monkeypatch.setattr(timing.time, "perf_counter", itertools.count(0, 12).__next__)


def test_steps_are_timed_in_blocks_after_a_warm_up(ticking: None) -> None:
    a, b = Recorder(overhead=1000.0), Recorder(overhead=0.0)
    times = timing.time_steps((a, b), 3, 14, 3, CPU)
    assert a.calls == b.calls == [-1, 3, 3, 4, 4]
    assert times == [[1004.0, 1003.0, 1003.0], [4.0, 3.0, 3.0]]  # 12 seconds by 3, 4 and 4 steps


def test_calls_alternate_after_a_call_that_is_not_timed(ticking: None) -> None:
    calls: list[str] = []
    times = timing.alternate([lambda: calls.append("ours"), lambda: calls.append("peer")], 3, CPU)
    assert calls == ["ours", "peer"] * 4
    assert times == [[12.0] * 3, [12.0] * 3]


def test_work_without_a_peer_is_repeated_after_a_call_that_is_not_timed(ticking: None) -> None:
    calls: list[str] = []
    assert timing.repeat(lambda: calls.append("ours"), 2, CPU) == [12.0, 12.0]
    assert len(calls) == 3
