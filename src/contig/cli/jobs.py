"""Options, progress and failures of the commands that run many jobs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contig.cli import console

if TYPE_CHECKING:
    from contig.experiments.jobs import Failure, Work

Seeds = Annotated[int, typer.Option("--seeds", metavar="N", min=1, help="Seeds 0 to N-1.")]
Models = Annotated[str, typer.Option("--models", metavar="NAME,NAME", help="Comma-separated models, or all.")]
Heuristics = Annotated[
    bool, typer.Option("--heuristics/--no-heuristics", help="Include heuristic baselines.")
]
AtOnce = Annotated[
    int,
    typer.Option("--at-once", metavar="N", min=1, help="Runs to train in parallel; they share the cores."),
]


Wait = Annotated[
    bool, typer.Option("--wait", help="Wait for another command that uses FOLDER, instead of refusing.")
]


def use_folder(ctx: typer.Context, folder: Path, wait: bool) -> None:
    """Keep other commands from using the folder until this one ends."""
    from contig.locks import locked

    ctx.with_resource(locked(folder, wait=wait))


def run_with_progress(
    description: str, chains: Sequence[Sequence[Work]], device: str, at_once: int
) -> list[Failure[Any]]:
    """Run the work that is not done, with a progress bar and a line for each result; return the failures."""
    from contig.experiments.jobs import run_jobs

    total, count = sum(not work.done for chain in chains for work in chain), itertools.count(1)

    def ended(work: Work, reason: str | None) -> None:
        advance(1)
        outcome = work.outcome() if reason is None else f"failed: {reason}"
        console.notice(f"{next(count)} of {total}, {work.name}: {outcome}")

    try:
        with console.bar(description, total) as advance:
            return run_jobs(chains, device=device, at_once=at_once, ended=ended)
    except KeyboardInterrupt:
        console.notice("interrupted; nothing is lost: repeat the command to continue")
        raise


def report_failures(lines: Sequence[str]) -> None:
    """Print what failed, and exit with an error code if anything did."""
    for line in lines:
        console.error(line)
    if lines:
        raise typer.Exit(2)
