"""Stopping a training on Ctrl-C or SIGTERM: at once, and without losing a finished step."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from contig.ranks import Ranks, ranks


class Interrupted(KeyboardInterrupt):
    """Training was stopped on request; every finished step is in the checkpoint."""


class StopRequest:
    """Whether a stop was requested, and what a request does.

    A request raises ``Interrupted`` wherever the training is, because everything but the steps of an epoch
    can be repeated from the last checkpoint. Inside ``deferred`` it waits for the end of the step.

    Several ranks stop together, at a place that all of them reach: one that left alone would leave the others
    waiting for it. ``received`` says that this rank got a request, ``requested`` that all of them know.
    """

    def __init__(self, here: Ranks | None = None) -> None:
        self.received = self.requested = False
        self._deferred = False
        self._ranks = here or Ranks()

    def check(self) -> None:
        """Raise ``Interrupted`` if a stop was requested, of any rank."""
        if not self._ranks.alone:
            self.requested = self._ranks.any(self.received)
        if self.requested:
            raise Interrupted

    def checked(self, progress: Callable[[int], None]) -> Callable[[int], None]:
        """Return ``progress`` followed by ``check``."""

        def advance(events: int) -> None:
            progress(events)
            self.check()

        return advance

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Only record requests inside this block, which checks for them; raise at its end at the latest."""
        self._deferred = True
        try:
            yield
        finally:
            self._deferred = False
        self.check()

    def receive(self, number: int, frame: object) -> None:
        """Handle a signal.

        A second Ctrl-C stops in the middle of a step. A repeated SIGTERM changes nothing: process managers
        and parent processes may both send one.
        """
        repeated, self.received = self.received, True
        if repeated and number == signal.SIGINT:
            raise KeyboardInterrupt
        if not self._ranks.alone:
            return
        self.requested = True
        if not repeated and not self._deferred:
            raise Interrupted


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Turn Ctrl-C and SIGTERM into requests to stop; in a thread other than the main one there are none."""
    stop = StopRequest(ranks())
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    signals = (signal.SIGINT, signal.SIGTERM)
    before = {name: signal.signal(name, stop.receive) for name in signals}
    try:
        yield stop
    finally:
        for name, handler in before.items():
            if handler is not None:  # one that was not installed from Python cannot be put back
                signal.signal(name, handler)
