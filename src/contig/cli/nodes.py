"""Nodes and times that a user names: options, ids in files, sides, dates."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contig.cli import console
from contig.errors import ConfigError, unknown

if TYPE_CHECKING:
    from contig.data.events import EventStream
    from contig.data.ids import Side

Node = Annotated[str, typer.Option("--node", metavar="ID", show_default=False, help="The id of the node.")]
At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="TIME",
        show_default="just after the last event",
        help="A number as in the events, or a date such as 2024-05-01T12:00.",
    ),
]
SideOption = Annotated[
    str | None,
    typer.Option("--side", metavar="src|dst", help="The side of the node, if its id occurs on both."),
]


def read_ids(option: str, given: str) -> list[int | str]:
    """Read comma-separated ids, or a file with one id per line."""
    try:
        text = Path(given).read_text("utf-8").splitlines() if Path(given).is_file() else given.split(",")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{option} {given}: the file cannot be read ({error}).") from None
    ids: list[int | str] = [name for line in text if (name := line.strip())]
    if not ids:
        raise ConfigError(f"{option} {given}: no ids found; give comma-separated ids, or a file of ids.")
    return ids


def parse_side(given: str | None) -> Side | None:
    match given:
        case None | "src" | "dst":
            return given
    raise ConfigError(f"--side: {unknown('side', given, ('src', 'dst'))}")


def parse_time(option: str, given: str | None, stream: EventStream) -> float | None:
    """Parse a number or a date into the stream's unit of time."""
    from contig.data import clock

    return None if given is None else clock.parse_time(given, stream.t, f"{option} {given}")


def note_if_nothing_happened(option: str, given: str | None, time: float | None, stream: EventStream) -> None:
    """Say why the answer for such an early time is empty."""
    if time is not None and time <= stream.t[0]:
        console.notice(f"{option} {given}: there is no event before this time")
