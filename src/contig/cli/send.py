"""The command ``send``: stream a file of events to a running service."""

from __future__ import annotations

from typing import Annotated

import typer

from contig.cli import console
from contig.cli.commands import Command
from contig.cli.data import File, read_stream, reads_events
from contig.cli.serve import TokenFile, need_extra
from contig.data.read_options import ReadOptions
from contig.wording import counted

app = typer.Typer()


@app.command(
    cls=Command,
    epilog=console.examples(
        ("contig send today.csv --to http://127.0.0.1:8000", "all events of a file"),
        ("contig send log.csv --to http://127.0.0.1:8000 --src who", "other columns"),
    ),
)
@reads_events
def send(
    file: File,
    to: Annotated[
        str, typer.Option("--to", metavar="URL", show_default=False, help="The address of the service.")
    ],
    reading: ReadOptions,
    batch: Annotated[int, typer.Option("--batch", metavar="EVENTS", min=1, help="Events per request.")] = 500,
    patience: Annotated[
        float,
        typer.Option("--patience", metavar="SECONDS", min=0, help="How long to retry if there is no answer."),
    ] = 60.0,
    token_file: TokenFile = None,
) -> None:
    """Stream the events of a file to a running service, in time order.

    Columns and features are those that the service's run was trained with, unless you name others.

    Every batch is on disk before the next is sent. Run the same command again after an
    interruption: the service recognizes the batches it has, and sending continues where it stopped.
    The exit status is 1 if the service rejected events.
    """
    need_extra()
    from contig.serve.client import Client
    from contig.serve.sending import patiently
    from contig.serve.sending import send as send_stream
    from contig.serve.settings import read_token

    with Client(to, read_token(token_file)) as client:
        stream = read_stream(file, reading, usual=patiently(client.read_as, patience))
        with console.bar("sending", len(stream)) as advance:
            summary = send_stream(client, stream, batch, patience, advance)
    console.notice(
        f"{to}: {counted(summary.accepted, 'event')} accepted, {summary.repeated:,} known from before, "
        f"{summary.rejected:,} rejected"
    )
    for one in summary.examples:
        console.notice(f"event {one.row:,} of {file} was rejected: {one.reason}")
    if summary.rejected:
        raise typer.Exit(1)
