"""What finished trainings leave behind, without the training."""

from __future__ import annotations

from typing import Any

from contig.experiments.jobs import Job
from contig.files import write_json
from contig.models import model_class
from contig.runs.config import RunConfig


def finish(job: Job, ap: float = 0.9, *, inductive: bool = True, **changes: Any) -> None:
    """Leave a run with this result where the job wants it; ``changes`` are of its metrics."""
    config = RunConfig.of(job.recipe.model, {**job.recipe.settings, "seed": job.seed})
    about = {"data": {"fingerprint": job.recipe.fingerprint}}
    write_json(job.folder / "config.json", {**about, **config.as_dict()})
    learns = model_class(job.recipe.model).learns
    found = {"ap": ap, "auc": ap - 0.1, "ap_overall": ap + 0.01, "auc_overall": ap - 0.2, "events": 7}
    metrics = {
        "transductive": found,
        "inductive": found if inductive else {"events": 0},
        "epochs": [{"train_seconds": 2.0}, {"train_seconds": 4.0}],
        "hardware": "abacus",
        "batch_size": config.train.batch_size,
        "protocol": {"holdout": config.train.holdout, "negatives": "random"},
        "parameters": 1234 if learns else 0,
        "events_per_second": {"train": 5000.0 if learns else 0.0, "score": 70_000.0},
        "peak_memory": {"bytes": 300_000_000, "of": "the whole process"},
    }
    write_json(job.folder / "metrics.json", {**metrics, **changes})
