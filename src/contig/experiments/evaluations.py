"""Evaluations of trained runs: each is done once and stored as JSON in the folder of its run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contig.experiments.jobs import Job
from contig.runs.run import Run


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
        return "-".join([self.task, *(f"{name}={value}" for name, value in sorted(self.options.items()))])

    @property
    def file(self) -> Path:
        return self.job.folder / "evaluations" / f"{self._stem}.json"

    @property
    def done(self) -> bool:
        return self.file.exists()

    @property
    def log(self) -> Path:
        return self.job.log

    def run(self, device: str) -> None:
        """Evaluate the run and store the result."""
        run = Run.open(self.job.folder, device)
        run.folder.save_evaluation(self._stem, run.evaluate(self.task, **self.options).as_dict())

    def outcome(self) -> str:
        return "evaluated"
