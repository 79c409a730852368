"""Trainings to be done: planned over recipes and seeds, run each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from contig.errors import ConfigError, RunError
from contig.experiments.recipes import Recipe
from contig.models import model_class
from contig.training.config import RunConfig
from contig.training.folder import RunFolder


@dataclass(frozen=True)
class Job:
    """One recipe with one seed, in a folder of its own."""

    recipe: Recipe
    seed: int
    folder: Path

    @property
    def done(self) -> bool:
        return (self.folder / "metrics.json").exists()

    @property
    def log(self) -> Path:
        """Where everything goes that the training says."""
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


class Failure(NamedTuple):
    """A training that did not come to its end, and why."""

    job: Job
    reason: str


Ended = Callable[[Job, str | None], None]  # told of every training that ends; with the reason if it failed


def plan(recipes: Sequence[Recipe], seeds: int, out: Path) -> list[Job]:
    """Every recipe with every seed; a rule with one alone, as it draws nothing.

    A recipe named twice counts once.
    """
    if out.exists() and not out.is_dir():
        raise ConfigError(f"--out {out} is a file; runs need a folder.")
    jobs: dict[Path, Job] = {}
    for recipe in recipes:
        for seed in range(seeds if model_class(recipe.model).learns else 1):
            job = Job(recipe, seed, out / f"{recipe.name}-{seed}")
            if jobs.setdefault(job.folder, job) != job:
                raise ConfigError(f"Two trainings would be kept in {job.folder}; give each an --out.")
    return list(jobs.values())


def run_jobs(
    jobs: Sequence[Job],
    *,
    device: str = "auto",
    at_once: int = 1,
    ended: Ended = lambda job, reason: None,
) -> list[Failure]:
    """Train what is not done yet, ``at_once`` at a time; what was interrupted is gone on with.

    A training that fails keeps no other from being done. Gives those that failed.
    """
    for job in jobs:
        _check_settings(job)
    failures: list[Failure] = []
    shared = environment(at_once)
    with ThreadPoolExecutor(max_workers=at_once) as pool:
        futures = {pool.submit(_run, job, device, shared): job for job in jobs if not job.done}
        try:
            for future in as_completed(futures):
                job, reason = futures[future], future.result()
                if reason is not None:
                    failures.append(Failure(job, reason))
                ended(job, reason)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # what is under way ends; nothing new begins
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


def _check_settings(job: Job) -> None:
    """A run that is there already must be what is asked for: results are found by their names."""
    if not (job.folder / "config.json").exists():
        return
    folder = RunFolder(job.folder)
    wanted = RunConfig.of(job.recipe.model, {**job.recipe.settings, "seed": job.seed}).as_dict()
    there = folder.config().as_dict()
    for part in ("options", "train"):
        for name, value in there[part].items():
            if wanted[part].get(name) != value:
                raise _other_run(job, f"{name}={value}", f"{name}={wanted[part].get(name)}")
    if job.recipe.fingerprint and folder.fingerprint() != job.recipe.fingerprint:
        raise _other_run(job, "other events", f"those that {job.recipe.data} holds now")


def _other_run(job: Job, there: str, wanted: str) -> RunError:
    return RunError(
        f"{job.folder} holds a run with {there}, but asked for is {wanted}; give another --out, or remove "
        "that run."
    )


def _run(job: Job, device: str, shared: dict[str, str]) -> str | None:
    """Do a job; why it failed, if it did."""
    job.folder.parent.mkdir(parents=True, exist_ok=True)
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
    if code < 0:
        return f"it was killed by signal {-code}" + (" (out of memory?)" if code == -9 else "")
    return (errors or lines or [f"it ended with exit code {code} and said nothing"])[-1]


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
