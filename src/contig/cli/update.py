"""The command ``update``: give a trained run new events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from contig.cli import console
from contig.cli.commands import Command
from contig.cli.data import File, reads_events
from contig.cli.folders import Device, Folder, open_run
from contig.cli.nodes import written_time
from contig.data.read_options import ReadOptions
from contig.errors import ConfigError, unknown
from contig.wording import counted

if TYPE_CHECKING:
    from contig.runs.observed import Policy

app = typer.Typer()


@app.command(
    cls=Command,
    epilog=console.examples(
        ("contig update runs/first today.csv", "later events"),
        ("contig update runs/first new.csv --src user --dst item", "own columns"),
        ("contig update runs/first missed.csv --late accept", "older events"),
    ),
)
@reads_events
def update(
    run: Folder,
    file: File,
    reading: ReadOptions,
    repeated: Annotated[
        str,
        typer.Option(
            "--repeated",
            metavar="reject|accept",
            help="Whether a file may repeat exactly the last events that the run knows.",
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

    Answers are the same however the events are divided into files. Events must not be older than
    the last known one; otherwise the row is reported and nothing changes. Evaluation still uses the
    events the run was trained on.
    """
    policies = _parse_policy("--repeated", repeated), _parse_policy("--late", late)
    opened = open_run(run, device)
    nodes = opened.stream.num_nodes
    with console.status(f"observing {file}"):
        added = opened.observe(file, reading, repeated=policies[0], late=policies[1])
    stream = opened.stream
    new_nodes = counted(stream.num_nodes - nodes, "new node")
    console.notice(
        f"{run} observed {counted(added, 'event')} and {new_nodes}; it knows "
        f"{counted(len(stream), 'event')} up to {written_time(stream, stream.t[-1].item())}"
    )


def _parse_policy(option: str, given: str) -> Policy:
    match given:
        case "reject" | "accept":
            return given
    raise ConfigError(f"{option}: {unknown('value', given, ('reject', 'accept'))}")
