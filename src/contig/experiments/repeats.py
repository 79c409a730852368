"""The same training with several seeds, several at once, and what comes out on average."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from math import isnan, nan
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from contig.errors import ConfigError, RunError
from contig.experiments.recipes import Recipe
from contig.training.config import RunConfig
from contig.training.folder import RunFolder

MEASURES = ("ap", "auc", "ap_overall", "auc_overall")


@dataclass(frozen=True)
class Job:
    """One recipe with one seed, in a folder of its own."""

    recipe: Recipe
    seed: int
    folder: Path

    @property
    def done(self) -> bool:
        return (self.folder / "metrics.json").exists()

    def command(self, device: str) -> list[str]:
        """The command that trains it, or goes on with it."""
        contig = [sys.executable, "-m", "contig"]
        if (self.folder / "config.json").exists():
            return [*contig, "resume", str(self.folder), "--device", device]
        settings = [part for k, v in self.recipe.settings.items() for part in ("--set", f"{k}={_text(v)}")]
        return [
            *(*contig, "train", self.recipe.data, "--model", self.recipe.model, "--seed", str(self.seed)),
            *("--device", device, "--out", str(self.folder), *settings),
        ]


@dataclass(frozen=True)
class Row:
    """A recipe's results over its seeds; each measure is ``(mean, standard deviation)``.

    A selection without events (no new nodes, say) has no measures: they are NaN.
    """

    recipe: Recipe
    seeds: int
    transductive: dict[str, tuple[float, float]]
    inductive: dict[str, tuple[float, float]]
    epochs: float
    epoch_seconds: float
    hardware: str

    def as_dict(self) -> dict[str, Any]:
        return {
            "data": self.recipe.data,
            "model": self.recipe.model,
            "variant": self.recipe.variant,
            "settings": self.recipe.settings,
            "seeds": self.seeds,
            "transductive": {k: _told(spread) for k, spread in self.transductive.items()},
            "inductive": {k: _told(spread) for k, spread in self.inductive.items()},
            "epochs": self.epochs,
            "epoch_seconds": self.epoch_seconds,
            "hardware": self.hardware,
        }


def plan(recipes: Sequence[Recipe], seeds: int, out: Path) -> list[Job]:
    """Every recipe with every seed; a recipe named twice counts once."""
    jobs: dict[Path, Job] = {}
    for recipe in recipes:
        for seed in range(seeds):
            job = Job(recipe, seed, out / f"{recipe.name}-{seed}")
            if jobs.setdefault(job.folder, job) != job:
                raise ConfigError(
                    f"Two recipes would be kept in {job.folder}; repeat them with an --out each."
                )
    return list(jobs.values())


def run_jobs(
    jobs: Sequence[Job],
    *,
    device: str = "auto",
    at_once: int = 1,
    ended: Callable[[Job], None] = lambda _: None,
) -> None:
    """Train what is not done yet, ``at_once`` at a time; what was interrupted is gone on with.

    A training that fails keeps no other from being done; the first failure is told in the end.
    """
    for job in jobs:
        _check_settings(job)
    waiting = [job for job in jobs if not job.done]
    failures: list[RunError] = []
    with ThreadPoolExecutor(max_workers=at_once) as pool:
        futures = {pool.submit(_run, job, device): job for job in waiting}
        try:
            for future in as_completed(futures):
                try:
                    future.result()
                except RunError as error:
                    failures.append(error)
                else:
                    ended(futures[future])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # what is under way ends; nothing new begins
            raise
    if failures:
        raise RunError(f"{len(failures)} of {len(waiting)} trainings failed. {failures[0]}")


def _check_settings(job: Job) -> None:
    """A run that is there already must be of the recipe as it stands: results are found by their names."""
    if not (job.folder / "config.json").exists():
        return
    wanted = RunConfig.of(job.recipe.model, {**job.recipe.settings, "seed": job.seed}).as_dict()
    there = RunFolder(job.folder).config().as_dict()
    for part in ("options", "train"):
        for name, value in there[part].items():
            if wanted[part].get(name) != value:
                raise RunError(
                    f"{job.folder} holds a run with {name}={value}, but the recipe says "
                    f"{name}={wanted[part].get(name)}; give another --out, or remove that run."
                )


def _run(job: Job, device: str) -> None:
    job.folder.parent.mkdir(parents=True, exist_ok=True)
    log = job.folder.with_suffix(".log")
    with log.open("a") as file:
        code = subprocess.run(job.command(device), stdout=file, stderr=file, check=False).returncode
    if code:
        raise RunError(f"{job.folder.name} ended with exit code {code}; see {log}.")


def collect(jobs: Sequence[Job]) -> list[Row]:
    """One row for each recipe of which at least one run is done."""
    recipes = list(dict.fromkeys(job.recipe.name for job in jobs))
    rows = []
    for name in recipes:
        done = [job for job in jobs if job.recipe.name == name and job.done]
        results = [json.loads((job.folder / "metrics.json").read_text()) for job in done]
        if results:
            rows.append(_row(done[0].recipe, results))
    return rows


def _row(recipe: Recipe, results: list[dict[str, Any]]) -> Row:
    epochs = [len(r["epochs"]) for r in results]
    seconds = [mean(e["train_seconds"] for e in r["epochs"]) for r in results]
    return Row(
        recipe=recipe,
        seeds=len(results),
        transductive={m: _spread([r["transductive"].get(m, nan) for r in results]) for m in MEASURES},
        inductive={m: _spread([r["inductive"].get(m, nan) for r in results]) for m in MEASURES},
        epochs=mean(epochs),
        epoch_seconds=mean(seconds),
        hardware=results[0]["hardware"],
    )


def _spread(values: list[float]) -> tuple[float, float]:
    if any(map(isnan, values)):
        return nan, nan
    return mean(values), stdev(values) if len(values) > 1 else 0.0


def _told(spread: tuple[float, float]) -> dict[str, float | None]:
    """For JSON, which has no NaN."""
    return {name: None if isnan(x) else x for name, x in zip(("mean", "std"), spread, strict=True)}


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
