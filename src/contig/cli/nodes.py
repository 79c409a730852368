"""Nodes and times that a user names: options, ids in files, sides, dates."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from contig.cli import console
from contig.errors import ConfigError, unknown

if TYPE_CHECKING:
    from contig.data.events import EventStream
    from contig.data.ids import Side

ID_FILES = (".txt", ".csv", ".tsv", ".parquet", ".arrow", ".feather")

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


def read_ids(option: str, given: str, stream: EventStream) -> list[int | str]:
    """Read comma-separated ids, a file with one id per line, or a column of a Parquet or Arrow file."""
    if not given.strip():
        raise ConfigError(f"{option}: the value is empty; give comma-separated ids, or a file of ids.")
    path, there = Path(given), _on_disk(given)
    is_file = there == "file"
    known = any(map(stream.ids.has, (given, *(name.strip() for name in given.split(",")))))
    if not is_file and (there or os.sep in given or path.suffix in ID_FILES) and not known:
        problem = "is a folder" if there else "there is no such file, and no such id"
        raise ConfigError(f"{option} {given}: {problem}; give comma-separated ids, or a file of ids.")
    if path.suffix in (".parquet", ".arrow", ".feather") and is_file:
        return _read_id_column(option, path)
    try:
        text = path.read_text("utf-8").splitlines() if is_file else given.split(",")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{option} {given}: the file cannot be read ({error}).") from None
    ids: list[int | str] = [name for line in text if (name := line.strip())]
    if not is_file and (whole := _divided_id(text, stream)):
        raise ConfigError(f"{option}: the id {whole!r} has a comma; give a file with one id per line.")
    if not ids:
        raise ConfigError(f"{option} {given}: no ids found; give comma-separated ids, or a file of ids.")
    if is_file and any(mark in text[0] for mark in ",;\t") and not any(map(stream.ids.has, ids)):
        raise ConfigError(
            f"{option} {given}: no line of this file is a known id, and the first has several columns: "
            f"{text[0][:80]!r}. Give a file with one id per line."
        )
    return ids


def _on_disk(given: str) -> Literal["file", "folder"] | None:
    """Return what a path names."""
    try:
        return "file" if Path(given).is_file() else "folder" if Path(given).is_dir() else None
    except OSError:  # many ids are longer than a path may be
        return None


def _divided_id(parts: list[str], stream: EventStream) -> str | None:
    """Return a known id that the commas between ids have divided."""
    pieces = [",".join(parts[i:j]) for i in range(len(parts)) for j in (i + 2, i + 3)]
    return next((piece.strip() for piece in pieces if "," in piece and stream.ids.has(piece.strip())), None)


def _read_id_column(option: str, path: Path) -> list[int | str]:
    import pyarrow as pa
    from pyarrow import feather, parquet

    from contig.data.columns import is_text

    try:
        table = (parquet if path.suffix == ".parquet" else feather).read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise ConfigError(f"{option} {path}: the file cannot be read ({error}).") from None
    if not table.num_rows or not table.num_columns:
        raise ConfigError(f"{option} {path}: no ids found; the first column must hold them.")
    column = table.column("node" if "node" in table.column_names else 0)
    if column.null_count or not (pa.types.is_integer(column.type) or is_text(column.type)):
        raise ConfigError(f"{option} {path}: ids must be integers or text, and none may be missing.")
    ids: list[int | str] = column.to_pylist()
    return ids


def parse_side(given: str | None) -> Side | None:
    match given:
        case None | "src" | "dst":
            return given
    raise ConfigError(f"--side: {unknown('side', given, ('src', 'dst'))}")


def parse_time(option: str, given: str | None, stream: EventStream) -> float | None:
    """Parse a number or a date into the stream's unit of time."""
    from contig.data import clock

    if given is None:
        return None
    time = clock.parse_time(given, stream.time_span, f"{option} {given}", stream.date_format)
    if not abs(time) < clock.LATEST:
        raise ConfigError(f"{option} {given}: times are finite and below {clock.LATEST:,}.")
    span = stream.time_span
    if span.unix is not None and span.iso(time) is None:
        raise ConfigError(
            f"{option} {given}: is the unit right? The events are in {span.unix}; this is not a date in them."
        )
    return time


def times_json(stream: EventStream, **times: float | None) -> dict[str, float | str | None]:
    """Return times for JSON: as in the events and, if they are Unix times, also as ISO dates."""

    span = stream.time_span
    dates = {f"{name}_date": span.iso(t) for name, t in times.items() if t is not None}
    return {**times, **{name: date for name, date in dates.items() if date is not None}}


def note_if_nothing_happened(option: str, given: str | None, time: float | None, stream: EventStream) -> None:
    """Say why the answer for such an early time is empty."""
    if time is not None and time <= stream.t[0]:
        console.notice(f"{option} {given}: there is no event before this time")


def note_time(stream: EventStream, at: float, last_event: float | None) -> None:
    """Say which time an answer is for, and the last event it knows."""
    if last_event is not None:
        when, last = written_time(stream, at), written_time(stream, last_event)
        console.notice(f"at {when}, from the events up to {last}")


def written_time(stream: EventStream, t: float) -> str:
    """Return a time as a date, or as a number if the times of the stream are not dates."""

    return stream.time_span.written(t)
