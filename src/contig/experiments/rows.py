"""Results over seeds: one row for each recipe, to be printed, drawn or stored."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from math import isnan, nan
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any, NamedTuple

from contig.experiments.jobs import Failure, Job
from contig.experiments.recipes import PLAIN, Recipe
from contig.files import replacing
from contig.models import model_class, model_label
from contig.runs.metrics import RunMetrics, timed_epochs
from contig.tasks.results import LinkMetrics

SELECTIONS = ("transductive", "inductive", "inductive_dyglib")  # see contig.tasks.link


class Spread(NamedTuple):
    """Mean and sample standard deviation over seeds; NaN where undefined, as for one seed."""

    mean: float
    std: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        if not values or any(map(isnan, values)):
            return cls(nan, nan)
        return cls(mean(values), stdev(values) if len(values) > 1 else nan)

    def as_dict(self) -> dict[str, float | None]:
        return _without_nan(self._asdict())


@dataclass(frozen=True)
class LinkSpread:
    """The metrics of link prediction over seeds."""

    ap: Spread
    auc: Spread
    ap_overall: Spread
    auc_overall: Spread
    events: int = 0  # of one seed

    @classmethod
    def of(cls, metrics: Sequence[LinkMetrics]) -> LinkSpread:
        spreads = {name: Spread.of([getattr(one, name) for one in metrics]) for name in cls._metrics()}
        return cls(**spreads, events=metrics[0].events if metrics else 0)

    def each(self) -> dict[str, Spread]:
        """Return the spreads by the name of their metric."""
        return {name: getattr(self, name) for name in self._metrics()}

    def as_dict(self) -> dict[str, Any]:
        return {**{name: spread.as_dict() for name, spread in self.each().items()}, "events": self.events}

    @classmethod
    def _metrics(cls) -> list[str]:
        return [field.name for field in fields(cls) if field.name != "events"]


class Cost(NamedTuple):
    """What training takes: means over seeds, but the maximum of the memory; NaN where unknown."""

    epochs: float
    epoch_seconds: float  # without the first epoch, if there are others
    parameters: float
    train_speed: float  # events per second
    score_speed: float
    peak_memory: float  # bytes

    @classmethod
    def of(cls, results: Sequence[RunMetrics]) -> Cost:
        if not results:
            return cls(*[nan] * len(cls._fields))
        peaks = [nan if r.peak_memory.bytes is None else r.peak_memory.bytes for r in results]
        return cls(
            epochs=mean(len(r.epochs) for r in results),
            epoch_seconds=mean(median(e.train_seconds for e in timed_epochs(r.epochs)) for r in results),
            parameters=results[0].parameters,
            train_speed=mean(r.events_per_second.train for r in results) or nan,  # 0 for a heuristic
            score_speed=mean(r.events_per_second.score for r in results),
            peak_memory=nan if any(map(isnan, peaks)) else max(peaks),
        )

    def as_dict(self) -> dict[str, float | None]:
        return _without_nan(self._asdict())


@dataclass(frozen=True)
class Row:
    """The results of a recipe: the finished runs, one for each seed, and the failures."""

    recipe: Recipe
    results: tuple[RunMetrics, ...]
    failures: tuple[Failure[Job], ...] = ()

    @property
    def label(self) -> str:
        """The model as tables show it, with the variant."""
        variant = self.recipe.variant
        return self.model if variant == PLAIN else f"{self.model}, {variant}"

    @property
    def model(self) -> str:
        """The name of the model as tables show it."""
        return model_label(self.recipe.model)

    @property
    def learns(self) -> bool:
        return model_class(self.recipe.model).learns

    @property
    def seeds(self) -> int:
        return len(self.results)

    @cached_property
    def transductive(self) -> LinkSpread:
        return LinkSpread.of([one.transductive for one in self.results])

    @cached_property
    def inductive(self) -> LinkSpread:
        return LinkSpread.of([one.inductive for one in self.results])

    @cached_property
    def inductive_dyglib(self) -> LinkSpread:
        return LinkSpread.of([one.inductive_dyglib for one in self.results])

    def selection(self, name: str) -> LinkSpread:
        """Return the metrics of one of ``SELECTIONS``."""
        return {
            "transductive": self.transductive,
            "inductive": self.inductive,
            "inductive_dyglib": self.inductive_dyglib,
        }[name]

    @cached_property
    def cost(self) -> Cost:
        return Cost.of(self.results)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values for JSON; None for NaN."""
        return {
            "data": self.recipe.data,
            "model": self.recipe.model,
            "variant": self.recipe.variant,
            "learns": self.learns,
            "settings": self.recipe.settings,
            "seeds": self.seeds,
            **{name: self.selection(name).as_dict() for name in SELECTIONS},
            **self.cost.as_dict(),
            **self._facts(),
            "failures": [{"seed": f.job.seed, "reason": f.reason} for f in self.failures],
        }

    def as_flat_dict(self) -> dict[str, Any]:
        """Return one value for each column of a CSV file."""
        facts = self._facts()
        return {
            "data": self.recipe.data,
            "model": self.recipe.model,
            "variant": self.recipe.variant,
            "seeds": self.seeds,
            **dict(self._flat_spreads()),
            **self.cost.as_dict(),
            **{key: facts.get(key) for key in ("peak_memory_of", "batch_size", "hardware")},
            "failures": "; ".join(f"seed {f.job.seed}: {f.reason}" for f in self.failures),
        }

    def _flat_spreads(self) -> Iterator[tuple[str, float | None]]:
        for name in SELECTIONS:
            yield f"events_{name}", self.selection(name).events
            for metric, spread in self.selection(name).each().items():
                for statistic, value in spread.as_dict().items():
                    yield f"{metric}_{name}_{statistic}", value

    def _facts(self) -> dict[str, Any]:
        """Describe how the runs were measured; return nothing without a finished run."""
        if not self.results:
            return {}
        first = self.results[0]
        return {
            "hardware": first.facts.hardware,
            "batch_size": first.facts.batch_size,
            "protocol": first.result.protocol.as_dict(),
            "peak_memory_of": first.peak_memory.of,
        }


def collect(jobs: Sequence[Job], failures: Sequence[Failure[Any]] = ()) -> list[Row]:
    """Gather the rows of jobs; a recipe without a finished or failed run has none."""
    rows = []
    for name in dict.fromkeys(job.recipe.name for job in jobs):
        ours = [job for job in jobs if job.recipe.name == name]
        results = tuple(job.metrics() for job in ours if job.done)
        folders = {job.folder for job in ours}
        failed = tuple(
            failure for failure in failures if isinstance(failure.job, Job) and failure.job.folder in folders
        )
        if results or failed:
            rows.append(Row(ours[0].recipe, results, failed))
    return rows


def write_csv(lines: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write lines as CSV with full precision; missing numbers, and columns that a line lacks, are empty."""
    columns = dict.fromkeys(name for line in lines for name in line)
    with replacing(path) as part, part.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(columns))
        writer.writeheader()
        writer.writerows(lines)


def _without_nan(values: dict[str, float]) -> dict[str, float | None]:
    return {name: None if isnan(value) else value for name, value in values.items()}
