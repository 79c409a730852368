"""The command ``update``: give a trained run new events."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from contig.cli import console
from contig.cli.commands import Command
from contig.cli.data import NEW_EVENT_OPTIONS, reads_events
from contig.cli.folders import Device, Folder, open_run
from contig.cli.nodes import written_time
from contig.data.read_options import ReadOptions
from contig.errors import ConfigError, unknown
from contig.wording import counted

if TYPE_CHECKING:
    from contig.runs.repeated_events import Policy, RepeatedPolicy

app = typer.Typer()


NewEvents = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        show_default=False,
        help="A file of new events (Parquet, CSV, TSV, JSON lines, ...), in the columns of those trained on.",
    ),
]


@app.command(
    cls=Command,
    epilog=console.examples(
        ("contig update runs/first today.csv", "later events"),
        ("contig update runs/first new.csv --src user --dst item", "own columns"),
        ("contig update runs/first week.csv --repeated skip", "only new events"),
        ("contig update runs/first missed.csv --late accept", "older events"),
    ),
)
@partial(reads_events, names=NEW_EVENT_OPTIONS)
def update(
    run: Folder,
    file: NewEvents,
    reading: ReadOptions,
    repeated: Annotated[
        str,
        typer.Option(
            "--repeated",
            metavar="reject|skip|accept",
            help="Events that the run already knows: refuse the file, skip them, or add them again.",
        ),
    ] = "reject",
    late: Annotated[
        str,
        typer.Option(
            "--late",
            metavar="reject|accept",
            help="Whether events before the last known one become part of the history, but of no node state.",
        ),
    ] = "reject",
    device: Device = "auto",
) -> None:
    """Add new events and nodes to a trained run without retraining.

    Answers are the same however the events are divided into files. Events must be neither known
    already nor older than the last known one; otherwise the row is reported and nothing changes.
    A file without rows is accepted and changes nothing.
    Evaluation still uses the events the run was trained on.
    """
    known, older = _parse_repeated(repeated), _parse_late(late)
    opened = open_run(run, device, "it can observe new events")
    nodes = opened.stream.num_nodes
    with console.status(f"observing {file}"):
        added = opened.observe(file, reading, repeated=known, late=older)
    stream = opened.stream
    new_nodes = counted(stream.num_nodes - nodes, "new node")
    console.notice(
        f"{run} observed {counted(added, 'event')} and {new_nodes}; it knows "
        f"{counted(len(stream), 'event')} up to {written_time(stream, stream.t[-1].item())}"
    )


def _parse_repeated(given: str) -> RepeatedPolicy:
    match given:
        case "reject" | "skip" | "accept":
            return given
    raise ConfigError(f"--repeated: {unknown('value', given, ('reject', 'skip', 'accept'))}")


def _parse_late(given: str) -> Policy:
    match given:
        case "reject" | "accept":
            return given
    raise ConfigError(f"--late: {unknown('value', given, ('reject', 'accept'))}")
