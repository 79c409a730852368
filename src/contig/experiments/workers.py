"""Worker processes: each runs a chain of work, and one that dies fails only its own."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any, Self, cast

from contig.experiments.worker_process import Runnable, serve

STOP_SECONDS = 30.0  # to finish a step and save a checkpoint when interrupted, before a worker is killed


class WorkerPool:
    """A fixed number of slots, each with a worker process that starts when the slot is first used.

    A worker is replaced on demand, so that what is measured in it does not depend on what ran before, and
    after a failure: it may have died, and after some errors of a GPU its process cannot use the GPU any more.
    """

    def __init__(self, slots: int, threads: int | None = None) -> None:
        """Create the slots; ``threads`` limits those of each worker, None leaves torch its default."""
        self._threads = threads
        self._workers: list[_Worker | None] = [None] * slots

    def start(self, slot: int, work: Runnable, device: str, *, fresh: bool = False) -> None:
        """Start ``work`` in an idle slot, in a new process if ``fresh``."""
        worker = self._workers[slot]
        if worker is None or fresh or not worker.alive:
            worker = self._replace(slot)
        try:
            worker.start(work, device)
        except OSError:  # it died while idle
            self._replace(slot).start(work, device)

    def _replace(self, slot: int) -> _Worker:
        if (worker := self._workers[slot]) is not None:
            worker.kill()
        worker = self._workers[slot] = _Worker(self._threads)
        worker.launch()  # only now, so that an interruption cannot lose it
        return worker

    def wait(self) -> list[tuple[int, str | None]]:
        """Block until work ends; return the slots it ran in, and why it failed (or None)."""
        busy = {w.connection: (i, w) for i, w in enumerate(self._workers) if w is not None and w.busy}
        ready = [busy[cast("Connection[Any, Any]", connection)] for connection in wait(list(busy))]
        return [(slot, self._collect(slot, worker)) for slot, worker in ready]

    def _collect(self, slot: int, worker: _Worker) -> str | None:
        reason = worker.result()
        if reason is not None:
            worker.kill()
            self._workers[slot] = None
        return reason

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all workers; running work saves a checkpoint first."""
        _stop([worker for worker in self._workers if worker is not None])


class _Worker:
    """One process, and the pipe to it."""

    def __init__(self, threads: int | None) -> None:
        context = get_context("spawn")
        self.connection, self._theirs = context.Pipe()
        # not a daemon, which could not have children of its own
        self.process = context.Process(target=serve, args=(self._theirs, threads))
        self.busy = False

    def launch(self) -> None:
        """Start the process."""
        self.process.start()
        self._theirs.close()  # else its end would stay open when the process dies

    @property
    def launched(self) -> bool:
        return self.process.pid is not None

    @property
    def alive(self) -> bool:
        return self.process.is_alive()

    def start(self, work: Runnable, device: str) -> None:
        self.busy = True  # first, so that an interruption in between does not take it for idle
        self.connection.send((work, device))

    def result(self) -> str | None:
        """Return the reason that the process sent, or how it died."""
        self.busy = False
        try:
            return cast("str | None", self.connection.recv())
        except (EOFError, OSError):
            self.process.join()
            return _death(self.process.exitcode or 0)

    def kill(self) -> None:
        """End the process and all that it has started."""
        if self.launched:
            self._kill_group()
            self.process.kill()
            self.process.join()
        self.connection.close()

    def _kill_group(self) -> None:
        """Kill the process group; there is none before the process has set it up, or where all have ended."""
        if hasattr(os, "killpg") and self.process.pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)


def _death(code: int) -> str:
    if code >= 0:
        return f"its process exited with code {code}"
    hint = " (out of memory?)" if code == -signal.SIGKILL else ""
    return f"its process was killed by {signal.Signals(-code).name}{hint}"


def _stop(workers: list[_Worker]) -> None:
    """End processes: idle ones when their pipe closes, busy ones by SIGTERM, all after a while by SIGKILL."""
    deadline = time.monotonic() + STOP_SECONDS
    try:
        for worker in workers:
            if worker.busy and worker.launched:
                worker.process.terminate()
            worker.connection.close()
        for worker in workers:
            if worker.launched:
                worker.process.join(max(0.0, deadline - time.monotonic()))
    finally:  # also when a second Ctrl-C interrupts the waiting
        for worker in workers:
            worker.kill()


def threads_each(workers: int) -> int | None:
    """Return the threads of each worker when they share the cores; None where one worker has them all.

    ``OMP_NUM_THREADS`` still limits them.
    """
    if workers == 1:
        return None
    share, limit = max(1, _cores() // workers), os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(share, int(limit))) if limit.isdecimal() else share


def _cores() -> int:
    """Count the cores this process may use, where the system says; otherwise all cores."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, so that interrupted work can save its checkpoints."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        if before is not None:  # one that was not installed from Python cannot be put back
            signal.signal(signal.SIGTERM, before)
