"""A study whose results are written by hand, as trainings and evaluations would leave them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from contig.data.events import EventStream
from contig.experiments.evaluations import Evaluation
from contig.files import write_json
from contig.reproduction.sources import Source
from contig.reproduction.studies import FULL, Plan, Study, chosen_items, make_plan
from contig.tasks.intervals import SETS
from support.finished import finish

SCALE = replace(
    FULL,
    sweeps={
        "horizon": (0.6, 1.0),
        "neighbors": (5, 15),
        "heads": (1, 2),
        "dim": (16, 172),
        "time_dim": (172, 256),
    },
    sizes=(100, 200, 400),
    sweep_settings={},
    sweep_events=None,
)
SECONDS = {  # of an epoch by the stream's events; the middle one is the same run
    "as many nodes": {100: 0.5, 200: 1.1, 400: 1.9},
    "more nodes": {100: 0.3, 200: 1.1, 400: 2.9},
}


def planned(folder: Path, items: str = "all", **changes: Any) -> Plan:
    """Two streams, three models, three seeds; nothing is done yet."""
    rng = np.random.default_rng(5)
    label = rng.integers(0, 2, 60)
    stream = EventStream.from_arrays(
        rng.integers(0, 9, 60), rng.integers(9, 20, 60), np.arange(60), label=label
    )
    sources = tuple(Source(name, stream, name) for name in ("wikipedia", "mooc"))
    models = ("contig", "tgn", "edgebank")
    study = Study(chosen_items(items.split()), sources, models, 3, folder, SCALE, folder / "none")
    return make_plan(replace(study, as_paper=False, **changes))


def lots(*words: object) -> float:
    """A number between 0 and 1 that belongs to these words."""
    return float(np.random.default_rng(list(repr(words).encode())).random())


def ap(plan: Plan, folder: Path) -> float:
    return 0.5 + 0.4 * lots(folder.name)


def fill(plan: Plan) -> Plan:
    """Leave a result for everything that is planned."""
    for job in plan.trainings:
        finish(job, ap(plan, job.folder))
    for why, jobs in plan.timings.items():
        for (size, seconds), job in zip(SECONDS[why].items(), jobs, strict=True):
            trained = 7 * size // 10
            epochs = [{"train_seconds": s, "events_per_second": trained / s} for s in (50.0, seconds)]
            finish(job, 0.6, epochs=epochs, data={"events": size, "nodes": size // 5})
    for one in (one for job in plan.trainings for one in plan.chain(job)[1:]):
        write_json(one.file, measurement(one))
    return plan


def measurement(one: Evaluation) -> dict[str, Any]:
    """What a task's evaluation holds, with numbers by the run's name."""
    name = one.job.folder.name
    selections = ("transductive", "inductive")
    if one.task == "classify":
        found: dict[str, Any] = {s: {"auc": lots(name, s), "events": 9, "positives": 3} for s in selections}
        return {"protocol": {"decoder_seeds": 4}, **found}
    if one.task == "recommend":
        measures = ("mrr", "recall@5", "recall@10", "recall@15", "recall@20")
        return {s: {m: lots(name, s, m) for m in measures} for s in selections}
    return {s: {part: {"ap": lots(name, s, part), "events": 4} for part in SETS} for s in selections}
