"""The same training with several seeds, several at once, and what comes out on average."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from contig.errors import RunError
from contig.experiments.recipes import Recipe

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
    """A recipe's results over its seeds; each measure is ``(mean, standard deviation)``."""

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
            "transductive": {k: {"mean": m, "std": s} for k, (m, s) in self.transductive.items()},
            "inductive": {k: {"mean": m, "std": s} for k, (m, s) in self.inductive.items()},
            "epochs": self.epochs,
            "epoch_seconds": self.epoch_seconds,
            "hardware": self.hardware,
        }


def plan(recipes: Sequence[Recipe], seeds: int, out: Path) -> list[Job]:
    """Every recipe with every seed."""
    return [Job(r, seed, out / f"{r.name}-{seed}") for r in recipes for seed in range(seeds)]


def run_jobs(
    jobs: Sequence[Job],
    *,
    device: str = "auto",
    at_once: int = 1,
    ended: Callable[[Job], None] = lambda _: None,
) -> None:
    """Train what is not done yet, ``at_once`` at a time; what was interrupted is gone on with."""
    waiting = [job for job in jobs if not job.done]
    with ThreadPoolExecutor(max_workers=at_once) as pool:
        futures = {pool.submit(_run, job, device): job for job in waiting}
        for future in as_completed(futures):
            future.result()
            ended(futures[future])


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
        transductive={m: _spread([r["transductive"][m] for r in results]) for m in MEASURES},
        inductive={m: _spread([r["inductive"][m] for r in results]) for m in MEASURES},
        epochs=mean(epochs),
        epoch_seconds=mean(seconds),
        hardware=results[0]["hardware"],
    )


def _spread(values: list[float]) -> tuple[float, float]:
    return mean(values), stdev(values) if len(values) > 1 else 0.0


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
