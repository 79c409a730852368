"""Evaluations of trained runs: each is done once and stored as JSON in the folder of its run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from pathlib import Path
from typing import Any, NamedTuple

from contig.errors import ConfigError, RunError
from contig.experiments.jobs import Job, Work
from contig.experiments.result_names import result_name
from contig.experiments.rows import Row, Spread
from contig.runs.folder import RunFolder
from contig.runs.run import Run
from contig.tasks.registry import task_class
from contig.tasks.results import TaskResult
from contig.tasks.task import Task


class EvaluationSpec(NamedTuple):
    """A task with options, such as ``link:negatives=historical``."""

    task: str
    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> EvaluationSpec:
        """Parse ``TASK`` or ``TASK:OPTION=VALUE,OPTION=VALUE``, and check the names and values."""
        task, _, options = text.partition(":")
        pairs = [pair.partition("=") for pair in options.split(",") if pair]
        if not all(name and sign for name, sign, _ in pairs):
            raise ConfigError(
                f"{text!r} is not an evaluation; write a task, or a task with options such as "
                "link:negatives=historical."
            )
        spec = cls(task, tuple((name, value) for name, _, value in pairs))
        if not spec.of_task().headline:
            raise ConfigError(f"{text!r}: the task {task} has no single metric to average over seeds.")
        return spec

    def of_task(self) -> Task[Any, Any]:
        """Return the task with its options."""
        return task_class(self.task).of(**dict(self.options))

    def of_job(self, job: Job) -> Evaluation:
        """Return the evaluation of a job's run."""
        return Evaluation(job, self.task, dict(self.options))

    def results(self, row: Row, jobs: Sequence[Job]) -> list[TaskResult]:
        """Read the finished evaluations of a row, one for each seed."""
        ours = [self.of_job(job) for job in jobs if job.recipe.name == row.recipe.name]
        return [one.result() for one in ours if one.done]

    def __str__(self) -> str:
        return ", ".join([self.task, *(f"{name}={value}" for name, value in self.options)])


class EvaluatedRow(NamedTuple):
    """The headline metric of a task over the seeds of a row, by selection of events."""

    row: Row
    metric: str  # as tables name it
    seeds: int
    spreads: dict[str, Spread]

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values for JSON."""
        recipe = self.row.recipe
        names = {"data": recipe.data, "model": recipe.model, "variant": recipe.variant, "seeds": self.seeds}
        return {**names, **{name: spread.as_dict() for name, spread in self.spreads.items()}}


def evaluated(rows: Sequence[Row], jobs: Sequence[Job], spec: EvaluationSpec) -> list[EvaluatedRow]:
    """Gather the finished evaluations of a task, one row for each recipe that has any."""
    task = spec.of_task()
    return [
        EvaluatedRow(row, task.headline.upper(), len(results), _spreads(task, results))
        for row in rows
        if (results := spec.results(row, jobs))
    ]


def _spreads(task: Task[Any, Any], results: Sequence[TaskResult]) -> dict[str, Spread]:
    return {
        name: Spread.of([getattr(getattr(result, field), task.headline, nan) for result in results])
        for name, field in task.selections_by(results[0].protocol).items()
    }


@dataclass(frozen=True)
class Evaluation:
    """A task to evaluate a run on; ``options`` are those of ``Run.evaluate``."""

    job: Job
    task: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self._stem} of {self.job.name}"

    @property
    def _stem(self) -> str:
        return result_name(self.task, self.options, self._folder)

    @property
    def _folder(self) -> Path:
        return self.job.folder / "evaluations"

    @property
    def file(self) -> Path:
        return self._folder / f"{self._stem}.json"

    @property
    def done(self) -> bool:
        return self.file.exists()

    @property
    def log(self) -> Path:
        return self.job.log

    def run(self, device: str) -> None:
        """Evaluate the run and store the result."""
        run, stem = Run.open(self.job.folder, device), self._stem
        weights = run.folder.version("best.pt")
        content = run.evaluate(self.task, **self.options).as_dict()
        if self._stem != stem:
            raise RunError(f"A file of the evaluation {stem} has changed meanwhile; evaluate again.")
        run.folder.save_evaluation(stem, content, weights)

    def result(self) -> TaskResult:
        """Read the stored result."""
        result: TaskResult = RunFolder(self.job.folder).evaluation(self._stem).result
        return result

    def outcome(self) -> str:
        return "evaluated"


def with_evaluations(jobs: Sequence[Job], specs: Sequence[EvaluationSpec]) -> list[list[Work]]:
    """Return a chain for each job: its training, followed by its evaluations."""
    return [
        [job, *(spec.of_job(job) for spec in specs)] for job in {job.folder: job for job in jobs}.values()
    ]
