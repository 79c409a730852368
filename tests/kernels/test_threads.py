"""Ranges cover every item exactly once; threads run together, raise errors and survive a fork."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from contig.kernels.threads import run_parallel, share_among_threads, split_range


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


@pytest.fixture
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("three_threads")
def test_pieces_are_worked_on_at_the_same_time_by_threads_that_compute_alone() -> None:
    barrier, seen = threading.Barrier(3, timeout=30), []

    def work(piece: int) -> None:
        barrier.wait()
        seen.append((piece, torch.get_num_threads(), torch.is_grad_enabled()))

    with torch.no_grad():
        share_among_threads(work, range(6))
    assert sorted(seen) == [(piece, 1, False) for piece in range(6)]
    found: list[int] = []
    later = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    later.start()
    later.join()
    assert [torch.get_num_threads(), *found] == [3, 3]


@pytest.mark.usefixtures("three_threads")
def test_an_error_in_a_piece_is_raised_once_nothing_runs() -> None:
    running: set[int] = set()

    def work(piece: int) -> None:
        running.add(piece)
        try:
            if piece == 2:
                raise ValueError("piece 2")
            torch.ones(100, 100) @ torch.ones(100, 100)
        finally:
            running.discard(piece)

    with pytest.raises(ValueError, match="piece 2"):
        share_among_threads(work, range(500))
    assert not running


def test_one_thread_works_on_pieces_in_order() -> None:
    before, seen = torch.get_num_threads(), list[tuple[int, str]]()
    torch.set_num_threads(1)
    try:
        share_among_threads(lambda piece: seen.append((piece, threading.current_thread().name)), range(3))
    finally:
        torch.set_num_threads(before)
    assert seen == [(piece, threading.current_thread().name) for piece in range(3)]
