"""What comes out of trainings on average: one row for each recipe, to be printed, drawn or kept."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isnan, nan
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

from contig.experiments.jobs import Failure, Job
from contig.experiments.recipes import PLAIN, Recipe
from contig.files import replacing
from contig.models import model_class

MEASURES = ("ap", "auc", "ap_overall", "auc_overall")
SELECTIONS = ("transductive", "inductive")


class Spread(NamedTuple):
    """Mean and standard deviation over seeds; NaN where there is none, as of one seed's deviation."""

    mean: float
    std: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        if not values or any(map(isnan, values)):
            return cls(nan, nan)
        return cls(mean(values), stdev(values) if len(values) > 1 else nan)


class Cost(NamedTuple):
    """What a training took, NaN where unknown: speeds on average, memory at the most."""

    epochs: float
    epoch_seconds: float
    parameters: float
    train_speed: float  # events per second
    score_speed: float
    peak_memory: float  # bytes


@dataclass(frozen=True)
class Row:
    """A recipe's results over the seeds that are done.

    A selection without events (no new nodes, say) has no measures: they are NaN.
    """

    recipe: Recipe
    seeds: int
    transductive: dict[str, Spread]
    inductive: dict[str, Spread]
    cost: Cost
    about: dict[str, Any]  # hardware, batch_size, protocol, and what the peak of memory is of
    failures: tuple[Failure[Job], ...] = ()

    @property
    def label(self) -> str:
        variant = self.recipe.variant
        return self.recipe.model if variant == PLAIN else f"{self.recipe.model}, {variant}"

    @property
    def learns(self) -> bool:
        return model_class(self.recipe.model).learns

    def as_dict(self) -> dict[str, Any]:
        """For JSON, which has no NaN."""
        selections = {name: getattr(self, name) for name in SELECTIONS}
        return {
            "data": self.recipe.data,
            "model": self.recipe.model,
            "variant": self.recipe.variant,
            "learns": self.learns,
            "settings": self.recipe.settings,
            "seeds": self.seeds,
            **{name: {m: _told(s) for m, s in found.items()} for name, found in selections.items()},
            **_told(self.cost),
            **self.about,
            "failures": [{"seed": f.job.seed, "reason": f.reason} for f in self.failures],
        }


def collect(jobs: Sequence[Job], failures: Sequence[Failure[Job]] = ()) -> list[Row]:
    """One row for each recipe of which a run is done or has failed."""
    rows = []
    for name in dict.fromkeys(job.recipe.name for job in jobs):
        ours = [job for job in jobs if job.recipe.name == name]
        results = [json.loads((job.folder / "metrics.json").read_text()) for job in ours if job.done]
        failed = tuple(failure for failure in failures if failure.job in ours)
        if results or failed:
            rows.append(_row(ours[0].recipe, results, failed))
    return rows


def _row(recipe: Recipe, results: list[dict[str, Any]], failures: tuple[Failure[Job], ...]) -> Row:
    spreads = {
        selection: {m: Spread.of([r[selection].get(m, nan) for r in results]) for m in MEASURES}
        for selection in SELECTIONS
    }
    about = {}
    if results:
        about = {key: results[0][key] for key in ("hardware", "batch_size", "protocol")}
        about["peak_memory_of"] = results[0]["peak_memory"]["of"]
    return Row(recipe, len(results), **spreads, cost=_cost(results), about=about, failures=failures)


def _cost(results: list[dict[str, Any]]) -> Cost:
    if not results:
        return Cost(*[nan] * len(Cost._fields))
    speeds = [r["events_per_second"] for r in results]
    peaks = [r["peak_memory"]["bytes"] for r in results]
    return Cost(
        epochs=mean(len(r["epochs"]) for r in results),
        epoch_seconds=mean(mean(e["train_seconds"] for e in r["epochs"]) for r in results),
        parameters=results[0]["parameters"],
        train_speed=mean(s["train"] for s in speeds) or nan,  # a rule's is 0: it does not train
        score_speed=mean(s["score"] for s in speeds),
        peak_memory=nan if None in peaks else max(peaks),
    )


def _told(values: Spread | Cost) -> dict[str, float | None]:
    return {name: None if isnan(x) else x for name, x in values._asdict().items()}


def write_csv(rows: Sequence[Row], path: Path) -> None:
    """Write rows as a table for programs: every number as it is, empty where there is none."""
    lines = [dict(_flat(row)) for row in rows]
    with replacing(path) as part, part.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]) if lines else [])
        writer.writeheader()
        writer.writerows(lines)


def _flat(row: Row) -> Iterator[tuple[str, Any]]:
    yield from {"data": row.recipe.data, "model": row.recipe.model, "variant": row.recipe.variant}.items()
    yield "seeds", row.seeds
    for selection in SELECTIONS:
        for measure, spread in getattr(row, selection).items():
            for what, value in _told(spread).items():
                yield f"{measure}_{selection}_{what}", value
    yield from _told(row.cost).items()
    for key in ("peak_memory_of", "batch_size", "hardware"):
        yield key, row.about.get(key)
    yield "failures", "; ".join(f"seed {f.job.seed}: {f.reason}" for f in row.failures)
