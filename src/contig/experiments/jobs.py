"""Training jobs: planned over recipes and seeds, run by worker processes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from contig.data.datasets import open_stream
from contig.data.events import EventStream
from contig.data.read_options import ReadOptions
from contig.errors import ConfigError, RunError
from contig.experiments.identity import run_folder
from contig.experiments.recipes import Recipe
from contig.experiments.worker_process import Runnable
from contig.experiments.workers import WorkerPool, sigterm_interrupts, threads_each
from contig.files import file_above
from contig.kernels.devices import parse_devices
from contig.models import model_class
from contig.runs.folder import RunFolder
from contig.runs.metrics import RunMetrics
from contig.training.fit import fit, resume


class Work(Runnable, Protocol):
    """A task that leaves its result in a file, and is done when the file exists."""

    @property
    def name(self) -> str: ...

    @property
    def done(self) -> bool: ...

    def outcome(self) -> str:
        """Summarize the result in a word or two."""


@dataclass(frozen=True)
class Job:
    """The training of one recipe with one seed, in a folder of its own."""

    recipe: Recipe
    seed: int
    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def done(self) -> bool:
        return RunFolder(self.folder).is_finished

    @property
    def lacks_weights(self) -> bool:
        """Whether the run is finished but cannot be evaluated, as one unpacked from an archive of results."""
        return RunFolder(self.folder).lacks_weights

    @property
    def log(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.log")

    def run(self, device: str) -> None:
        """Train, or resume a training that was interrupted; one without a checkpoint starts over.

        So does a finished run without weights. Its results, evaluations included, are removed when the new
        training starts, since they do not belong to the new weights.
        """
        recipe, again = self.recipe, self.lacks_weights
        if RunFolder(self.folder).has_results and not again:
            resume(self.folder, device=device)
        else:
            events = _events(recipe.data, recipe.reading, recipe.fingerprint)
            settings = {**recipe.settings, "seed": self.seed}
            fit(events, recipe.model, out=self.folder, device=device, overwrite=again, **settings)

    def outcome(self) -> str:
        ap = self.metrics().transductive.ap
        return "done" if isnan(ap) else f"AP {100 * ap:.2f}"

    def metrics(self) -> RunMetrics:
        """Read the results of the finished run."""
        return RunFolder(self.folder).metrics()


def _events(data: str, reading: ReadOptions, fingerprint: str) -> EventStream:
    """Read the events of a recipe; they must still be those it was planned for."""
    stream = open_stream(data, reading)
    if fingerprint and stream.fingerprint() != fingerprint:
        raise RunError(f"The events of {data} have changed since this command started; start it again.")
    return stream


W = TypeVar("W", bound=Work)


class Failure(NamedTuple, Generic[W]):
    """Work that failed, and why."""

    job: W
    reason: str


def plan(recipes: Sequence[Recipe], seeds: int, runs: Path, any_numerics: bool = False) -> list[Job]:
    """Plan every recipe with every seed, each in its folder of ``runs``; identical runs are planned once.

    A heuristic has a single seed, because it draws no random numbers.
    """
    jobs = (
        Job(recipe, seed, run_folder(recipe, seed, runs, any_numerics))
        for recipe in recipes
        for seed in range(seeds if model_class(recipe.model).learns else 1)
    )
    return list({job.folder: job for job in jobs}.values())


def runs_in(out: Path) -> Path:
    """Return the folder of the runs in ``out``; commands with the same ``out`` share their runs."""
    if blocking := file_above(out / "runs"):
        raise ConfigError(f"--out {out}: {blocking} is a file; give a folder for the runs.")
    return out / "runs"


def as_chains(jobs: Sequence[Job]) -> list[list[Work]]:
    """Return chains of one job each, for ``run_jobs``; a job that is listed twice runs once."""
    return [[job] for job in {job.folder: job for job in jobs}.values()]


def run_jobs(
    chains: Sequence[Sequence[Work]],
    *,
    device: str = "auto",
    at_once: int = 1,
    ended: Callable[[Work, str | None], None] = lambda work, reason: None,
) -> list[Failure[Any]]:
    """Run the work that is not done yet, ``at_once`` pieces at a time, and return the failures.

    A chain is a job followed by its evaluations, which are skipped if the job fails. A failure stops nothing
    else. ``ended`` is called after each piece of work, with the reason if it failed. Ctrl-C and SIGTERM stop
    all work at once and raise ``KeyboardInterrupt``; running the same chains again resumes it.

    A finished run without weights is trained again if one of its evaluations is missing; all evaluations of
    its chain follow, and others that it had are gone.

    ``device`` may be a comma-separated list, which is dealt out in turn: with two devices, every other one of
    the ``at_once`` workers has the first. ``auto`` and ``cuda`` are every GPU of the machine.

    Every job trains in a new process, so that its speed and its peak memory do not depend on what ran before;
    its evaluations follow in the same one. A model that was registered in this process must be named by its
    path there.
    """
    waiting = [chain for chain in chains if remaining(chain)]
    slots, shared, devices = min(at_once, len(waiting)), iter(waiting), parse_devices(device)
    queues = [_undone(shared) for _ in range(slots)]
    running: dict[int, Work] = {}
    failures: list[Failure[Any]] = []

    def start_next(slot: int, reason: str | None = None) -> None:
        work = queues[slot].send(reason)
        if work is not None:
            running[slot] = work
            pool.start(slot, work, devices[slot % len(devices)], fresh=isinstance(work, Job))

    with sigterm_interrupts(), WorkerPool(slots, threads_each(at_once)) as pool:
        for slot in range(slots):
            start_next(slot)
        while running:
            for slot, reason in pool.wait():
                work = running.pop(slot)
                if reason is not None:
                    failures.append(Failure(work, reason))
                ended(work, reason)
                start_next(slot, reason)
    return failures


def remaining(chain: Sequence[Work]) -> list[Work]:
    """Return the work of a chain that is not done yet, each once; all of it if its run is trained again."""
    unique = {work.name: work for work in chain}.values()
    return [work for work in unique if not work.done or is_trained_again(chain)]


def is_trained_again(chain: Sequence[Work]) -> bool:
    """Return whether evaluations are missing of a finished run that has no weights to evaluate."""
    job = chain[0]
    return isinstance(job, Job) and job.lacks_weights and not all(work.done for work in chain)


def _undone(chains: Iterator[Sequence[Work]]) -> Generator[Work | None, str | None, None]:
    """Yield the work of one chain after the other, then None; takes the reason why the last one failed."""
    for chain in chains:
        for work in remaining(chain):
            reason = yield work
            if reason is not None and work is chain[0]:
                break
    yield None
