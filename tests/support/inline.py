"""A pool that runs jobs in this process instead of workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from contig.experiments import jobs
from contig.experiments.jobs import Work

Run = Callable[[Any, str], str | None]


def run_inline(patch: pytest.MonkeyPatch, run: Run) -> list[Work]:
    """Replace worker processes: call ``run(work, device)`` here, which returns why it failed (or None).

    Returns the list that collects what was started.
    """
    started: list[Work] = []

    class InlinePool:
        def __init__(self, slots: int, threads: int | None = None) -> None:
            self.ended: list[tuple[int, str | None]] = []

        def start(self, slot: int, work: Work, device: str, *, fresh: bool = False) -> None:
            started.append(work)
            self.ended.append((slot, run(work, device)))

        def wait(self) -> list[tuple[int, str | None]]:
            ended, self.ended = self.ended, []
            return ended

        def __enter__(self) -> InlinePool:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    patch.setattr(jobs, "WorkerPool", InlinePool)
    return started
