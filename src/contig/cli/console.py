"""Output of the commands: results to stdout, everything else to stderr."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


# What a terminal obeys instead of showing it: C0 and C1 controls, DEL, bidirectional overrides.
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def visible(text: object) -> str:
    """Show control characters as escapes, so that no id or file name can command the terminal."""
    return CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), str(text))


@cache
def out() -> Console:
    """Return the console for results."""
    from rich.console import Console

    return Console(highlight=False)


@cache
def err() -> Console:
    """Return the console for notices, progress and errors, so that stdout can be piped."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


_quiet = _quiet_if_urgent = False


def silence(on: bool = True, *, urgent: bool | None = None) -> None:
    """Print no notices and show no progress from now on; errors and results are printed.

    ``urgent`` says whether that includes notices that every process prints, such as why it waits.
    """
    from contig import progress

    global _quiet, _quiet_if_urgent
    _quiet, _quiet_if_urgent = on, on if urgent is None else urgent
    progress.silence(on)


def error(message: str) -> None:
    """Print why a command stops."""
    _print_labeled("error", "bold red", message)


def notice(message: str, *, urgent: bool = False) -> None:
    """Print something that the user should know, unless it is to be quiet (see ``silence``)."""
    if not (_quiet_if_urgent if urgent else _quiet):
        _print_labeled("note", "yellow", message)


def _print_labeled(kind: str, style: str, message: str) -> None:
    from rich.text import Text

    # Never wrapped, so that paths can be copied.
    err().print(
        Text.assemble((f"{kind}: ", style), (visible(message), "red" if kind == "error" else "")),
        soft_wrap=True,
    )


def print_note(text: str, style: str = "") -> None:
    """Print what explains a table, indented; in a terminal, continuation lines are indented further."""
    from textwrap import fill

    console, shown = out(), visible(text)
    if console.is_terminal:
        shown = fill(
            shown, console.width - 4, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )
    for line in shown.splitlines():
        console.print(f"  {line}", style=style, soft_wrap=True, markup=False)


def print_json(data: Any) -> None:
    """Print ``data`` as JSON, and nothing else."""
    typer.echo(json.dumps(data, indent=2, allow_nan=False))


@contextmanager
def status(message: str) -> Iterator[None]:
    """Show a spinner while the block runs; nothing if stderr is not a terminal."""
    if not err().is_terminal or _quiet:
        yield
        return
    from rich.markup import escape

    with err().status(escape(visible(message))):
        yield


@contextmanager
def bar(description: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar while the block runs, and give it the function that advances the bar."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()),
        *(TextColumn("left:"), TimeRemainingColumn()),
    )
    # The remaining time follows the pace since the start: single steps may take longer than rich looks back.
    shown = err().is_terminal and total > 0 and not _quiet
    with Progress(*columns, console=err(), disable=not shown, speed_estimate_period=math.inf) as progress:
        task = progress.add_task(description, total=total)
        progress.advance(task, 0)
        yield lambda count: progress.advance(task, count)


class _Log(logging.Handler):
    """Shows log records of the package as notices."""

    def emit(self, record: logging.LogRecord) -> None:
        notice(record.getMessage(), urgent=getattr(record, "urgent", False))


@contextmanager
def shown_log() -> Iterator[None]:
    """Show log records of the package on stderr while the block runs."""
    log, handler = logging.getLogger("contig"), _Log(logging.INFO)
    level = log.level
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


def examples(*pairs: tuple[str, str]) -> str:
    """Format the epilog of a help page: commands to try, each with its purpose."""
    width = max(len(command) for command, _ in pairs)
    lines = [f"  [cyan]{command:<{width}}[/cyan]  [dim]{purpose}[/dim]" for command, purpose in pairs]
    return "\n".join(["[bold]Examples[/bold]", *lines])


def plain(text: object) -> str:
    """Escape text that rich would read as markup, and control characters."""
    from rich.markup import escape

    return escape(visible(text))


def new_table(title: str, *columns: str) -> Table:
    """Create a table whose first column has the title as its heading; the others are right-aligned."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, header_style="cyan", padding=(0, 1, 0, 0))
    table.add_column(title, header_style="bold")
    for name in columns:
        table.add_column(name, justify="right")
    return table
