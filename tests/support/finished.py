"""Results of finished runs, written without training them."""

from __future__ import annotations

from typing import Any

from contig.experiments.jobs import Job
from contig.files import write_json
from contig.models import model_class
from contig.runs.config import RunConfig
from contig.runs.manifest import RunManifest, TrainingData
from contig.runs.metrics import Epoch, PeakMemory, RunMetrics, Throughput
from contig.tasks.link import LinkProtocol, LinkResult
from contig.tasks.results import DataFacts, LinkMetrics, RunFacts


def finish(job: Job, ap: float = 0.9, *, inductive: bool = True, **changes: Any) -> None:
    """Write a finished run to the job's folder; ``changes`` replace keys of its ``metrics.json``."""
    config = RunConfig.of(job.recipe.model, {**job.recipe.settings, "seed": job.seed})
    data = TrainingData(origin=job.recipe.data, events=60, nodes=20, fingerprint=job.recipe.fingerprint)
    manifest = RunManifest(contig="0.1.0", data=data, **config.as_dict())
    write_json(job.folder / "config.json", manifest.as_dict())
    learns = model_class(job.recipe.model).learns
    metrics = RunMetrics(
        facts=facts(job),
        result=_link_result(ap, inductive),
        parameters=1234 if learns else 0,
        peak_memory=PeakMemory(bytes=300_000_000, of="the whole process"),
        best_epoch=2,
        events_per_second=Throughput(
            train=5000.0 if learns else 0.0,
            train_over="median of the epochs after the first",
            score=70_000.0,
        ),
        epochs=(epoch(1, 2.0), epoch(2, 4.0)),
    )
    write_json(job.folder / "metrics.json", {**metrics.as_dict(), **changes})


def facts(job: Job, events: int = 60, nodes: int = 20) -> RunFacts:
    """Describe a run on a made-up machine."""
    return RunFacts(
        contig="0.1.0",
        model=job.recipe.model,
        data=DataFacts(origin=job.recipe.data, events=events, nodes=nodes),
        seed=job.seed,
        batch_size=job.recipe.config(job.seed).train.batch_size,
        hardware="abacus",
    )


def epoch(number: int, seconds: float, events: int = 10_000) -> Epoch:
    """Describe an epoch by its duration and its training events."""
    return Epoch(
        epoch=number,
        loss=0.5,
        val_ap=0.8,
        val_auc=0.8,
        val_ap_inductive=0.7,
        train_seconds=seconds,
        events_per_second=events / seconds,
    )


def _link_result(ap: float, inductive: bool) -> LinkResult:
    found = LinkMetrics(ap=ap, auc=ap - 0.1, ap_overall=ap + 0.01, auc_overall=ap - 0.2, events=700)
    empty = LinkMetrics(events=0)
    protocol = LinkProtocol.of(
        "link",
        "tgn",
        inductive=True,
        negatives="random",
        metrics="over batches",
        inductive_dyglib="in batches of their own",
    )
    lower = LinkMetrics(ap=ap - 0.05, auc=ap - 0.15, ap_overall=ap - 0.04, auc_overall=ap - 0.25, events=700)
    return LinkResult(
        protocol=protocol,
        transductive=found,
        inductive=found if inductive else empty,
        inductive_dyglib=lower if inductive else empty,
        old_old=found,
        new_old=empty,
        new_new=empty,
    )
