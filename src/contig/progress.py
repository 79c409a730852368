"""Progress for people: bars on a terminal, log lines elsewhere."""

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
    """Shows progress bars on a terminal and log lines elsewhere; ``show=False`` shows nothing."""

    def __init__(self, show: bool | None = None) -> None:
        console = Console(stderr=True)
        self.bars = console.is_terminal if show is None else show and console.is_terminal
        self.lines = show is not False and not self.bars
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
        """Start a bar over some events, of which ``done`` are done already."""
        return Task(self, description, events, done)

    @contextmanager
    def bar(self, description: str, total: int) -> Iterator[Callable[[int], None]]:
        """Show a bar while the block runs, and give it the function that advances the bar."""
        task = self.task(description, total)
        yield task.advance
        task.end()

    def line(self, text: str) -> None:
        """Print a line above the bars, or log it."""
        if self.bars:
            self.progress.console.print(text, highlight=False)
        elif self.lines:
            log.info(text)


class Task:
    """One bar, and the speed since it started."""

    def __init__(self, display: Display, description: str, events: int, done: int) -> None:
        self.bar = display.progress
        self.id = self.bar.add_task(description, total=events, completed=done, note="")
        self.started, self.events = time.perf_counter(), 0

    def advance(self, events: int, note: str = "") -> None:
        """Count events as done."""
        self.events += events
        self.bar.update(self.id, advance=events, note=f"{note}  {self.speed():,.0f} events/s".strip())

    def speed(self) -> float:
        """Return the events per second since the bar was started."""
        return self.events / max(time.perf_counter() - self.started, 1e-9)

    def end(self) -> None:
        """Remove the bar."""
        self.bar.remove_task(self.id)
