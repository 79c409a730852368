"""Work to be done, trainings above all: planned over recipes and seeds, each in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from contig.errors import ConfigError
from contig.experiments.identity import run_folder
from contig.experiments.recipes import Recipe
from contig.models import model_class


class Work(Protocol):
    """What a command does in a process of its own, and leaves behind as a file."""

    @property
    def name(self) -> str: ...

    @property
    def done(self) -> bool: ...

    @property
    def log(self) -> Path:
        """Where everything goes that the command says."""

    def command(self, device: str) -> list[str]:
        """The command that does it."""

    def told(self) -> str:
        """What came out, in a word."""


@dataclass(frozen=True)
class Job:
    """One recipe with one seed, in a folder of its own."""

    recipe: Recipe
    seed: int
    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def done(self) -> bool:
        return (self.folder / "metrics.json").exists()

    @property
    def log(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.log")

    def command(self, device: str) -> list[str]:
        """The command that trains it, or goes on with it."""
        contig = [sys.executable, "-m", "contig"]
        if (self.folder / "config.json").exists():
            return [*contig, "resume", str(self.folder), "--device", device]
        settings = [part for k, v in self.recipe.settings.items() for part in ("--set", f"{k}={_text(v)}")]
        return [
            *(*contig, "train", self.recipe.data, "--model", self.recipe.model, "--seed", str(self.seed)),
            *("--device", device, "--out", str(self.folder), *self.recipe.reading, *settings),
        ]

    def told(self) -> str:
        found = json.loads((self.folder / "metrics.json").read_text())["transductive"]
        return f"AP {100 * found['ap']:.2f}" if "ap" in found else "done"


INTERRUPTED = "it was interrupted"

W = TypeVar("W", bound=Work)


class Failure(NamedTuple, Generic[W]):
    """Work that did not come to its end, and why."""

    job: W
    reason: str


def plan(recipes: Sequence[Recipe], seeds: int, runs: Path, any_code: bool = False) -> list[Job]:
    """Every recipe with every seed, each in its folder of ``runs``; what is the same run counts once.

    A rule has one seed alone, as it draws nothing.
    """
    jobs = (
        Job(recipe, seed, run_folder(recipe, seed, runs, any_code))
        for recipe in recipes
        for seed in range(seeds if model_class(recipe.model).learns else 1)
    )
    return list({job.folder: job for job in jobs}.values())


def runs_in(out: Path) -> Path:
    """Where commands that make many runs keep them; those with the same ``out`` share them."""
    if out.exists() and not out.is_dir():
        raise ConfigError(f"--out {out} is a file; runs need a folder.")
    return out / "runs"


def alone(jobs: Sequence[Job]) -> list[list[Work]]:
    """Chains of one job each, for ``run_jobs``; a run that is named twice is done once."""
    return [[job] for job in {job.folder: job for job in jobs}.values()]


def run_jobs(
    chains: Sequence[Sequence[Work]],
    *,
    device: str = "auto",
    at_once: int = 1,
    ended: Callable[[Work, str | None], None] = lambda work, reason: None,
) -> list[Failure[Any]]:
    """Do what is not done yet, ``at_once`` at a time; a training that was interrupted is gone on with.

    A chain is a job and what is asked of it afterwards, if the job itself went well. What fails keeps
    nothing else from being done. Gives what failed. ``ended`` is told of everything that ends, with the
    reason if it failed.
    """
    failures: list[Failure[Any]] = []
    shared, stopping, telling = environment(at_once), Event(), Lock()

    def work_along(chain: Sequence[Work]) -> None:
        for work in chain:
            if stopping.is_set():
                return
            if work.done:
                continue
            reason = _run(work, device, shared)
            with telling:
                if reason is not None:
                    failures.append(Failure(work, reason))
                if reason != INTERRUPTED:  # Ctrl-C reaches all, and is told once
                    ended(work, reason)
            if reason is not None and work is chain[0]:
                return

    with ThreadPoolExecutor(max_workers=at_once) as pool:
        futures = [pool.submit(work_along, c) for c in chains if not all(work.done for work in c)]
        try:
            for future in as_completed(futures):
                future.result()
        except BaseException:
            stopping.set()  # what is under way ends; nothing new begins
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return failures


def environment(at_once: int) -> dict[str, str]:
    """The environment of a training that shares the cores with others: each gets its part of the threads."""
    given = dict(os.environ)
    if at_once == 1:
        return given
    part = max(1, _cores() // at_once)
    asked = given.get("OMP_NUM_THREADS", "")
    return {**given, "OMP_NUM_THREADS": str(min(part, int(asked)) if asked.isdecimal() else part)}


def _cores() -> int:
    """The cores this process may use, where the system tells; else all there are."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def _run(job: Work, device: str, shared: dict[str, str]) -> str | None:
    """Do a job; why it failed, if it did."""
    job.log.parent.mkdir(parents=True, exist_ok=True)
    with job.log.open("a+") as file:
        begun = file.tell()
        command = job.command(device)
        code = subprocess.run(command, stdout=file, stderr=file, env=shared, check=False).returncode
        if not code:
            return None
        file.seek(begun)
        return _reason(code, file.read())


def _reason(code: int, said: str) -> str:
    """Why a command ended so: what it says itself, in its last lines."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    if code in (-signal.SIGINT, 130):
        return INTERRUPTED
    if code < 0:
        return f"it was killed by signal {-code}" + (" (out of memory?)" if code == -9 else "")
    return (errors or lines or [f"it ended with exit code {code} and said nothing"])[-1]


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
