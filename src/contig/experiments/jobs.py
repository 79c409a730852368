"""Work to be done, trainings above all: planned over recipes and seeds, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from contig.errors import ConfigError, RunError
from contig.experiments.recipes import Recipe
from contig.models import model_class
from contig.training.folder import RunFolder


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

    def check(self) -> None:
        """Refuse what cannot go well before anything is begun."""

    def told(self) -> str:
        """What came out, in a word."""


W = TypeVar("W", bound=Work)


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

    def check(self) -> None:
        """A run that is there already must be what is asked for: results are found by their names."""
        if not (self.folder / "config.json").exists():
            return
        folder = RunFolder(self.folder)
        wanted = self.recipe.config(self.seed).as_dict()
        there = folder.config().as_dict()
        for part in ("options", "train"):
            for name, value in there[part].items():
                if wanted[part].get(name) != value:
                    raise self._other_run(f"{name}={value}", f"{name}={wanted[part].get(name)}")
        if self.recipe.fingerprint and folder.fingerprint() != self.recipe.fingerprint:
            raise self._other_run("other events", f"those that {self.recipe.data} holds now")

    def told(self) -> str:
        found = json.loads((self.folder / "metrics.json").read_text())["transductive"]
        return f"AP {100 * found['ap']:.2f}" if "ap" in found else "done"

    def _other_run(self, there: str, wanted: str) -> RunError:
        return RunError(
            f"{self.folder} holds a run with {there}, but asked for is {wanted}; give another --out, or "
            "remove that run."
        )


class Failure(NamedTuple, Generic[W]):
    """Work that did not come to its end, and why."""

    job: W
    reason: str


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


def _nothing(job: Work) -> Sequence[Work]:
    return ()


def run_jobs(
    jobs: Sequence[W],
    *,
    device: str = "auto",
    at_once: int = 1,
    ended: Callable[[Work, str | None], None] = lambda job, reason: None,
    then: Callable[[W], Sequence[Work]] = _nothing,
) -> list[Failure[Any]]:
    """Do what is not done yet, ``at_once`` at a time; a training that was interrupted is gone on with.

    After each job comes what ``then`` says of it, if the job itself went well. One that fails keeps no
    other from being done. Gives those that failed. ``ended`` is told of every one that ends, with the
    reason if it failed.
    """
    chains: list[list[Work]] = [[job, *then(job)] for job in jobs]
    for work in (work for chain in chains for work in chain):
        work.check()
    failures: list[Failure[Any]] = []
    shared = environment(at_once)
    with ThreadPoolExecutor(max_workers=at_once) as pool:
        open_chains = [chain for chain in chains if not all(work.done for work in chain)]
        futures = [pool.submit(_run_chain, chain, device, shared) for chain in open_chains]
        try:
            for future in as_completed(futures):
                for work, reason in future.result():
                    if reason is not None:
                        failures.append(Failure(work, reason))
                    ended(work, reason)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # what is under way ends; nothing new begins
            raise
    return failures


def _run_chain(chain: Sequence[Work], device: str, shared: dict[str, str]) -> list[tuple[Work, str | None]]:
    """Do what is not done of a job and of what follows from it; each with the reason if it failed."""
    ended: list[tuple[Work, str | None]] = []
    for work in chain:
        if not work.done:
            ended.append((work, _run(work, device, shared)))
        if not chain[0].done:
            break
    return ended


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
    if code < 0:
        return f"it was killed by signal {-code}" + (" (out of memory?)" if code == -9 else "")
    return (errors or lines or [f"it ended with exit code {code} and said nothing"])[-1]


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
