"""Progress for people: bars on a terminal or in a notebook with ipywidgets, lines elsewhere."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

log = logging.getLogger("contig")


_silent = False  # set by `silence`


def silence(on: bool = True) -> None:
    """Hide progress unless a caller requests it with ``show=True``."""
    global _silent
    _silent = on


SECONDS_BETWEEN_LINES = 10.0  # while a task runs, where there are lines instead of bars


class Display:
    """Shows progress: bars on a terminal or in a notebook, log records of the package elsewhere.

    ``show=True`` prints lines to stderr instead of logging them, and ``show=False`` shows nothing. A notebook
    without ipywidgets cannot show bars, and gets the lines.
    """

    def __init__(self, show: bool | None = None) -> None:
        console = Console(stderr=True)
        show = False if show is None and _silent else show
        if console.is_jupyter and find_spec("ipywidgets") is None:
            console = Console(force_jupyter=False)  # on stdout: what is on stderr looks like an error there
            show = True if show is None else show
        self.notices: list[str] = []
        self.bars = show is not False and (console.is_terminal or console.is_jupyter)
        self.printed = show is True and not self.bars
        self.logged = show is None and not self.bars
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

    def notice(self, text: str) -> None:
        """Print or log a line as ``line`` does, and remember it."""
        self.notices.append(text)
        self.line(text)

    def line(self, text: str) -> None:
        """Print a line, above the bars if there are any, or log it."""
        if self.bars or self.printed:
            self.progress.console.print(text, highlight=False, markup=False, soft_wrap=True)
        elif self.logged:
            log.info(text)


class Task:
    """One bar, and the speed since it started."""

    def __init__(self, display: Display, description: str, events: int, done: int) -> None:
        self.display, self.bar = display, display.progress
        self.description, self.total, self.before = description, events, done
        self.id = self.bar.add_task(description, total=events, completed=done, note="")
        self.started, self.events = time.perf_counter(), 0
        self.last_line = self.started

    def advance(self, events: int, note: str = "") -> None:
        """Count events as done."""
        self.events += events
        note = f"{note}  {self.speed():,.0f} events/s".strip()
        self.bar.update(self.id, advance=events, note=note)
        now = time.perf_counter()
        if self.display.printed and now - self.last_line >= SECONDS_BETWEEN_LINES:
            self.last_line = now
            done = self.before + self.events
            self.display.line(f"{self.description}: {done:,} of {self.total:,} events  {note}")

    def speed(self) -> float:
        """Return the events per second since the bar was started."""
        return self.events / max(time.perf_counter() - self.started, 1e-9)

    def end(self) -> None:
        """Remove the bar."""
        self.bar.remove_task(self.id)
