"""What a person sees of a training."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

log = logging.getLogger("contig")


class Display:
    """Progress bars on a terminal, one line an epoch elsewhere, nothing when not wanted."""

    def __init__(self, wanted: bool | None = None) -> None:
        console = Console(stderr=True)
        self.bars = console.is_terminal if wanted is None else wanted and console.is_terminal
        self.lines = wanted is not False and not self.bars
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not self.bars,
        )

    def __enter__(self) -> Display:
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def task(self, description: str, events: int, done: int = 0) -> Task:
        """A bar over some events."""
        return Task(self, description, events, done)

    @contextmanager
    def bar(self, description: str, total: int) -> Iterator[Callable[[int], None]]:
        """A bar over some events while something lasts; the caller is given what advances it."""
        task = self.task(description, total)
        yield task.advance
        task.end()

    def say(self, line: str) -> None:
        """A line that stays."""
        if self.bars:
            self.progress.console.print(line, highlight=False)
        elif self.lines:
            log.info(line)


class Task:
    """One bar, with the speed worked out as it goes."""

    def __init__(self, display: Display, description: str, events: int, done: int) -> None:
        self.bar = display.progress
        self.id = self.bar.add_task(description, total=events, completed=done, note="")
        self.begun, self.events = time.perf_counter(), 0

    def advance(self, events: int, note: str = "") -> None:
        self.events += events
        self.bar.update(self.id, advance=events, note=f"{note}  {self.speed():,.0f} events/s".strip())

    def speed(self) -> float:
        return self.events / max(time.perf_counter() - self.begun, 1e-9)

    def end(self) -> None:
        self.bar.remove_task(self.id)
