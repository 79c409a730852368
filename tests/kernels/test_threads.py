"""Ranges cover every item exactly once; threads run together, raise errors and survive a fork."""

from __future__ import annotations

import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contig.kernels.threads import run_parallel, split_range


@given(count=st.integers(0, 50), parts=st.integers(-1, 9))
def test_ranges_cover_every_item_once(count: int, parts: int) -> None:
    ranges = split_range(count, parts)
    assert [i for first, end in ranges for i in range(first, end)] == list(range(count))
    assert len(ranges) == max(1, min(parts, count))
    sizes = [end - first for first, end in ranges]
    assert max(sizes) - min(sizes) <= 1


def test_ranges_run_at_the_same_time() -> None:
    """Each waits for all the others, so one after the other they would never finish."""
    barrier, seen = threading.Barrier(3, timeout=30), []

    def work(first: int, end: int) -> None:
        barrier.wait()
        seen.append((first, end))

    run_parallel(work, split_range(10, 3))
    assert sorted(seen) == split_range(10, 3)


def test_an_error_in_any_range_is_raised() -> None:
    def work(first: int, end: int) -> None:
        if first:
            raise ValueError(f"range {first}")

    with pytest.raises(ValueError, match="range 5"):
        run_parallel(work, split_range(10, 2))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_starts_its_own_threads() -> None:
    run_parallel(lambda first, end: None, split_range(4, 2))
    child = os.fork()
    if child == 0:
        done: list[int] = []
        run_parallel(lambda first, end: done.append(first), split_range(4, 2))
        os._exit(0 if sorted(done) == [0, 2] else 1)
    assert os.waitpid(child, 0)[1] == 0
