"""How commands are told which run is meant, and open it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contig.cli import console

if TYPE_CHECKING:
    from contig.runs.run import Run

Folder = Annotated[
    Path, typer.Argument(metavar="RUN", show_default=False, help="The folder of a run, as train made it.")
]
Device = Annotated[
    str, typer.Option("--device", metavar="DEVICE", help="auto, cpu, cuda or cuda:1; auto is a GPU if any.")
]


def open_run(run: Path, device: str) -> Run:
    """The run in a folder, with a spinner while it is read."""
    from contig.runs.run import Run

    with console.status(f"opening {run}"):
        return Run.open(run, device)
