"""Requests to stop: what each signal does, and when."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from contig.training.interruption import Interrupted, StopRequest, stop_requests

BOTH = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])


def stopped(work: Callable[[StopRequest], None]) -> type[BaseException] | None:
    """Run ``work`` with its requests to stop, and return how it ended."""
    try:
        with stop_requests() as stop:
            work(stop)
    except KeyboardInterrupt as error:
        return type(error)
    return None


@BOTH
def test_a_request_is_granted_at_once(number: signal.Signals) -> None:
    def work(stop: StopRequest) -> None:
        signal.raise_signal(number)
        pytest.fail("still running")

    assert stopped(work) is Interrupted


@BOTH
def test_a_deferred_request_is_granted_at_the_end_of_the_block(number: signal.Signals) -> None:
    reached = False

    def work(stop: StopRequest) -> None:
        nonlocal reached
        with stop.deferred():
            assert not stop.requested
            signal.raise_signal(number)
            reached = stop.requested
        pytest.fail("still running")

    assert stopped(work) is Interrupted
    assert reached


def test_a_second_ctrl_c_does_not_wait() -> None:
    def work(stop: StopRequest) -> None:
        with stop.deferred():
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)
            pytest.fail("still running")

    assert stopped(work) is KeyboardInterrupt


def test_a_repeated_sigterm_does_not_disturb_the_clean_up() -> None:
    cleaned = False

    def work(stop: StopRequest) -> None:
        nonlocal cleaned
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGTERM)
            cleaned = True

    assert stopped(work) is Interrupted
    assert cleaned


def test_a_request_that_was_swallowed_is_found_by_the_next_progress() -> None:
    """Python ignores an exception in a destructor."""
    seen: list[int] = []

    def work(stop: StopRequest) -> None:
        advance = stop.checked(seen.append)
        advance(3)
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        advance(4)
        pytest.fail("still running")

    assert stopped(work) is Interrupted
    assert seen == [3, 4]


def test_another_thread_has_no_requests() -> None:
    ends: list[object] = []
    thread = threading.Thread(target=lambda: ends.append(stopped(StopRequest.check)))
    thread.start()
    thread.join()
    assert ends == [None]
