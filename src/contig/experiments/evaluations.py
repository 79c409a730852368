"""Evaluations of trained runs: done once each, and kept as JSON beside the run."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contig.errors import RunError
from contig.experiments.jobs import Job


@dataclass(frozen=True)
class Evaluation:
    """One task asked of one run; ``options`` are those of ``contig evaluate``."""

    job: Job
    task: str
    options: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        return f"{self.question} of {self.job.name}"

    @property
    def question(self) -> str:
        """The task and its options, as a file's name."""
        return "-".join([self.task, *(value for _, value in self.options)])

    @property
    def file(self) -> Path:
        return self.job.folder / "evaluations" / f"{self.question}.json"

    @property
    def done(self) -> bool:
        return self.file.exists()

    @property
    def log(self) -> Path:
        return self.job.log

    def command(self, device: str) -> list[str]:
        words = [word for name, value in self.options for word in (f"--{name}", value)]
        return [
            *(sys.executable, "-m", "contig", "evaluate", str(self.job.folder), "--task", self.task),
            *("--device", device, "--out", str(self.file), *words),
        ]

    def told(self) -> str:
        return "measured"

    def result(self) -> dict[str, Any] | None:
        """What was measured; None where it has not been done."""
        if not self.done:
            return None
        try:
            content: dict[str, Any] = json.loads(self.file.read_text("utf-8"))
        except ValueError as error:
            raise RunError(
                f"{self.file} cannot be read ({error}); remove it, and it is measured again."
            ) from error
        return content
