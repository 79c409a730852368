"""Arguments that name a run and a device, and how a run is opened."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contig.cli import console

if TYPE_CHECKING:
    from contig.runs.run import Run

Folder = Annotated[Path, typer.Argument(metavar="RUN", show_default=False, help="The folder of a run.")]
Device = Annotated[
    str,
    typer.Option("--device", metavar="DEVICE", help="auto (a GPU if there is one), cpu, cuda or cuda:1."),
]
Heuristics = Annotated[
    bool,
    typer.Option(
        "--heuristics/--no-heuristics",
        "--compare/--no-compare",
        help="Also test heuristic baselines, and say where the model loses.",
    ),
]


def open_run(run: Path, device: str, finished_for: str = "") -> Run:
    """Open a run, with a spinner while it is read; ``finished_for`` is what only a finished run can do."""
    from contig.runs.folder import RunFolder
    from contig.runs.run import Run

    if finished_for:
        folder = RunFolder(run)
        folder.config()  # refuses what is not a run
        folder.require_finished(finished_for)
    with console.status(f"opening {run}"):
        return Run.open(run, device)
