"""Options, progress and failures of the commands that run many jobs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from contig.cli import console
from contig.errors import ConfigError
from contig.wording import counted

if TYPE_CHECKING:
    from contig.experiments.jobs import Failure, Work
    from contig.experiments.parts import Part

Seeds = Annotated[int, typer.Option("--seeds", metavar="N", min=1, help="Seeds 0 to N-1.")]
Models = Annotated[str, typer.Option("--models", metavar="NAME,NAME", help="Comma-separated models, or all.")]
Heuristics = Annotated[
    bool, typer.Option("--heuristics/--no-heuristics", help="Include heuristic baselines.")
]
Devices = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="DEVICE,DEVICE",
        help="auto (the GPUs if there are any), cpu, cuda (all GPUs) or a list: parallel runs take turns.",
    ),
]
AtOnce = Annotated[
    int | None,
    typer.Option(
        "--at-once",
        metavar="N",
        min=1,
        show_default="one per listed device",
        help="Runs to train in parallel; they share the cores.",
    ),
]
PartOption = Annotated[
    str | None,
    typer.Option(
        "--part",
        metavar="K/N",
        show_default="all of it",
        help="Train one of N parts; other machines that share FOLDER train the others.",
    ),
]
OnlyDone = Annotated[
    bool, typer.Option("--only-done", help="Train and evaluate nothing; show the results so far.")
]
Wait = Annotated[
    bool, typer.Option("--wait", help="Wait for another command that uses FOLDER, instead of refusing.")
]


class Sweep(NamedTuple):
    """How a command runs its jobs: on which devices, how many at a time, and which part of them."""

    device: str
    at_once: int
    part: Part
    only_done: bool = False

    @classmethod
    def of(cls, device: str, at_once: int | None, part: str | None, only_done: bool = False) -> Sweep:
        """Check the options of a command, before it reads or writes anything."""
        from contig.experiments.parts import Part
        from contig.kernels.devices import parse_devices
        from contig.ranks import require_one_process

        require_one_process("This command")
        chosen = Part() if part is None else Part.parse(part)
        if only_done and not chosen.whole:
            raise ConfigError(f"--only-done shows the results of all parts; leave out --part {part}.")
        if not only_done:  # results of a GPU are also shown where there is none
            parse_devices(device)
        return cls(device, at_once or device.count(",") + 1, chosen, only_done)

    def use_folder(self, ctx: typer.Context, folder: Path, wait: bool) -> None:
        """Keep other commands from doing the same work in the folder until this one ends."""
        from contig.experiments.parts import claimed
        from contig.locks import locked

        if self.only_done and not folder.is_dir():
            raise ConfigError(
                f"--only-done shows finished runs, but there is no folder {folder}. Name another one with "
                "--out, or leave out --only-done to train."
            )
        if self.part.whole:  # only then it writes tables
            ctx.with_resource(locked(folder, wait=wait))
        if not self.only_done:
            ctx.with_resource(claimed(folder, self.part, wait=wait))

    def run(self, description: str, chains: Sequence[Sequence[Work]]) -> list[Failure[Any]]:
        """Run the jobs of this part that are not done; return the failures."""
        if self.only_done:
            return []
        own = self.part.of(chains)
        if not self.part.whole:
            console.notice(f"part {self.part}: {len(own)} of {counted(len(chains), 'run')}")
        return run_with_progress(description, own, self.device, self.at_once)

    def run_timed(self, description: str, chains: Sequence[Sequence[Work]]) -> list[Failure[Any]]:
        """Run jobs one at a time, all in the first part: one machine has them, since times are compared."""
        if self.only_done or self.part.number > 1:
            return []
        return run_with_progress(description, chains, self.device, 1)

    def end_part(self, failures: Sequence[Failure[Any]]) -> None:
        """Exit after one of several parts: the results are shown when all have ended."""
        if not self.part.whole:
            console.notice("when all parts have ended, repeat the command without --part to see the results")
            report_failures(failure_lines(failures))
            raise typer.Exit


def run_with_progress(
    description: str, chains: Sequence[Sequence[Work]], device: str, at_once: int
) -> list[Failure[Any]]:
    """Run the work that is not done, with a progress bar and a line for each result; return the failures."""
    from contig.experiments.jobs import is_trained_again, remaining, run_jobs

    if again := sum(map(is_trained_again, chains)):
        runs = counted(again, "finished run")
        console.notice(f"{runs} without weights: trained again to be evaluated, which replaces their results")
    total, count = sum(len(remaining(chain)) for chain in chains), itertools.count(1)

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


def failure_lines(failures: Sequence[Failure[Any]]) -> list[str]:
    """Return a line for each failure, with the file that has all of it."""
    return [f"{one.job.name} failed: {one.reason} (full log: {one.job.log})" for one in failures]


def report_failures(lines: Sequence[str]) -> None:
    """Print what failed, and exit with an error code if anything did."""
    for line in lines:
        console.error(line)
    if lines:
        raise typer.Exit(2)
