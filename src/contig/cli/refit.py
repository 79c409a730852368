"""The command ``refit``: train a run once more, on everything or with new events."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from contig.cli import console
from contig.cli.commands import Command
from contig.cli.data import NEW_EVENT_OPTIONS, Json, reads_events
from contig.cli.folders import Device, Folder
from contig.cli.repeated import Repeated, parse_known_policy
from contig.cli.training import Overwrite, print_final, resumable
from contig.data.read_options import ReadOptions

app = typer.Typer()


@app.command(
    cls=Command,
    epilog=console.examples(
        ("contig refit runs/first --on everything", "for production"),
        ("contig refit runs/first --on june.csv --out runs/june", "new events"),
        ("contig refit runs/first --on june.csv --epochs 3", "three passes"),
        ("contig refit runs/first --on june.csv --in-place", "replace the run"),
    ),
)
@partial(reads_events, names=NEW_EVENT_OPTIONS)
def refit(
    run: Folder,
    on: Annotated[
        str,
        typer.Option(
            "--on",
            metavar="everything|FILE",
            show_default=False,
            help="Every event that the run knows, or a file of later events to continue with.",
        ),
    ],
    reading: ReadOptions,
    repeated: Repeated = "reject",
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", show_default="RUN-refit", help="The folder of the new run."),
    ] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Replace the run when the training has ended.")
    ] = False,
    overwrite: Overwrite = False,
    epochs: Annotated[
        int | None,
        typer.Option(
            "--epochs",
            metavar="N",
            min=1,
            show_default="that of the run's best epoch; 1 with new events",
            help="Passes over the events.",
        ),
    ] = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Train a run once more, as a new run that learns from every event.

    With everything, it starts from random weights and trains for as many epochs as the run's best one.
    With a file, it continues from the run's weights on the run's events and those of the file, which
    come after them. The run itself does not change, unless --in-place replaces it by the new one.
    """
    from contig.training.refit import refit

    policy = parse_known_policy(repeated)
    with resumable(out):
        finished = refit(
            run,
            on,
            out=out,
            in_place=in_place,
            overwrite=overwrite,
            epochs=epochs,
            device=device,
            reading=reading,
            repeated=policy,
        )
    print_final(finished, json)
