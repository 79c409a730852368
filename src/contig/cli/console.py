"""What every command prints with: results to stdout, everything said besides to stderr."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


@cache
def out() -> Console:
    """Where results go."""
    from rich.console import Console

    return Console(highlight=False)


@cache
def err() -> Console:
    """Where notices, progress and errors go, so that stdout can be piped."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def error(message: str) -> None:
    """Say why a command stops."""
    _say("error", "bold red", message)


def notice(message: str) -> None:
    """Say something that the user should know and that stops nothing."""
    _say("note", "yellow", message)


def _say(kind: str, style: str, message: str) -> None:
    from rich.text import Text

    # One line however long: a path broken in two cannot be copied.
    err().print(
        Text.assemble((f"{kind}: ", style), (message, "red" if kind == "error" else "")), soft_wrap=True
    )


def print_json(data: Any) -> None:
    """Print ``data`` as JSON, and nothing else."""
    typer.echo(json.dumps(data, indent=2, allow_nan=False))


@contextmanager
def status(message: str) -> Iterator[None]:
    """A spinner while something takes its time; silent where nobody watches."""
    if not err().is_terminal:
        yield
        return
    from rich.markup import escape

    with err().status(escape(message)):
        yield


@contextmanager
def bar(description: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar over ``total`` things, which may take long; the caller is given what advances it."""
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
    # The time left is by the pace since the start: the last half minute may have seen nothing end.
    wanted = err().is_terminal and total > 0
    with Progress(*columns, console=err(), disable=not wanted, speed_estimate_period=math.inf) as progress:
        task = progress.add_task(description, total=total)
        progress.advance(task, 0)
        yield lambda count: progress.advance(task, count)


class _Log(logging.Handler):
    """What the package logs, shown as notices."""

    def emit(self, record: logging.LogRecord) -> None:
        notice(record.getMessage())


@contextmanager
def shown_log() -> Iterator[None]:
    """Show on stderr what the package logs meanwhile."""
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
    """The epilog of a help text: commands to try, each with what it is for."""
    wide = max(len(command) for command, _ in pairs)
    lines = [f"  [cyan]{command:<{wide}}[/cyan]  [dim]{purpose}[/dim]" for command, purpose in pairs]
    return "\n".join(["[bold]Examples[/bold]", *lines])


def plain(text: object) -> str:
    """Text that rich must not read as markup."""
    from rich.markup import escape

    return escape(str(text))


def new_table(title: str, *columns: str) -> Table:
    """A table whose first column is headed by its title, the others set to the right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, header_style="cyan")
    table.add_column(title, header_style="bold")
    for name in columns:
        table.add_column(name, justify="right")
    return table
