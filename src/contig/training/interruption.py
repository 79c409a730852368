"""Stopping a training on Ctrl-C or SIGTERM without losing anything."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Interrupted(KeyboardInterrupt):
    """Training was stopped on request; everything done so far is in the checkpoint."""


@contextmanager
def stop_requests() -> Iterator[threading.Event]:
    """Turn Ctrl-C and SIGTERM into a flag to check between steps; a second Ctrl-C stops at once.

    A repeated SIGTERM changes nothing: process managers and parent processes may both send one.
    """
    stop = threading.Event()

    def request(number: int, frame: object) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.set()

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    signals = (signal.SIGINT, signal.SIGTERM)
    before = {name: signal.signal(name, request) for name in signals}
    try:
        yield stop
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def raise_if_requested(stop: threading.Event) -> None:
    """Raise ``Interrupted`` if a stop was requested."""
    if stop.is_set():
        raise Interrupted
