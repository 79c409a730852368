"""A study with results written by hand, in the form that training and evaluation leave them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contig.data.events import EventStream
from contig.experiments.evaluations import Evaluation
from contig.experiments.jobs import Job
from contig.files import write_json
from contig.reproduction.datasets import StudyDataset
from contig.reproduction.items import choose_items
from contig.reproduction.items.base import Group, Item
from contig.reproduction.items.fig5 import Fig5
from contig.reproduction.items.fig6 import FIXED, GROWING, Fig6
from contig.reproduction.plan import Plan, make_plan
from contig.reproduction.study import Study
from contig.reproduction.tables.numbers import Grid, Table, Value
from contig.tasks import classify, intervals, link, recommend, results
from contig.tasks.intervals import SETS
from support.finished import epoch, facts, finish

SMALL: dict[str, Item] = {
    "fig5": Fig5(
        values={
            "horizon": (0.6, 1.0),
            "neighbors": (5, 15),
            "heads": (1, 2),
            "dim": (16, 172),
            "time_dim": (172, 256),
        },
        settings={},
        events=None,
    ),
    "fig6": Fig6(sizes=(100, 200, 400)),
}
SECONDS = {  # of an epoch by the dataset's events; the middle size is the same run in both
    FIXED: {100: 0.5, 200: 1.1, 400: 1.9},
    GROWING: {100: 0.3, 200: 1.1, 400: 2.9},
}


def small_items(names: str) -> tuple[Item, ...]:
    """Items by their names, with few variants and sizes."""
    return tuple(SMALL.get(item.name, item) for item in choose_items(names.split()))


def small_stream(events: int = 60, labeled: bool = True) -> EventStream:
    rng = np.random.default_rng(5)
    label = rng.integers(0, 2, events) if labeled else None
    return EventStream.from_arrays(
        rng.integers(0, 9, events), rng.integers(9, 20, events), np.arange(events), label=label
    )


def planned(folder: Path, items: str = "all", **changes: Any) -> Plan:
    """Plan two datasets, three models and three seeds; nothing has been run."""
    stream = small_stream()
    datasets = tuple(StudyDataset(name, stream, name) for name in ("wikipedia", "mooc"))
    models = ("contig", "tgn", "edgebank")
    study = Study(small_items(items), datasets, models, 3, folder, configs=folder / "none")
    return make_plan(replace(study, **{"every_dataset": True, **changes}))


def number(*words: object) -> float:
    """Draw a number between 0 and 1 that depends on the words alone."""
    return float(np.random.default_rng(list(repr(words).encode())).random())


def fill(plan: Plan) -> Plan:
    """Write a result for everything that is planned."""
    for job in plan.trainings:
        finish(job, 0.5 + 0.4 * number(job.folder.name))
    for group in plan.groups.get("fig6", []):
        for (size, seconds), job in zip(SECONDS[group.series].items(), group.jobs, strict=True):
            epochs = [epoch(i, s, 7 * size // 10).as_dict() for i, s in enumerate((50.0, seconds))]
            data = facts(job, events=size, nodes=size // 5).data.as_dict()
            finish(job, 0.6, epochs=epochs, data=data)
    for one in (one for job in plan.trainings for one in plan.chain(job)[1:]):
        assert isinstance(one, Evaluation)
        store(one)
    return plan


def store(one: Evaluation) -> None:
    """Write the result of an evaluation; it depends on the name of the run."""
    result = results.Evaluation(facts=facts(one.job), result=RESULTS[one.task](one.job.folder.name))
    write_json(one.file, result.as_dict())


SECTIONS = ("transductive", "inductive", "old_old", "new_old", "new_new")


def classify_result(name: str) -> classify.ClassifyResult:
    """Return AUCs that depend on the run's name, of fewer events for models that cannot score new nodes."""
    counts = classify.LabelCounts(events=9, positives=3)
    measured = {"events": 3456, "positives": 12}
    if "-gae-" in name:
        measured = {"events": 345, "positives": 9 if name.startswith("wikipedia") else 11}
    aucs = {section: classify.LabelMetrics(auc=number(name, section), **measured) for section in SECTIONS[:2]}
    return classify.ClassifyResult(
        protocol=classify.ClassifyProtocol.of(
            *("classify", "tgn"), inductive=True, decoder="", balance="", decoder_seeds=4, stopped_by=""
        ),
        labels=classify.LabelParts(
            train=counts, validation=counts, test=classify.LabelCounts(events=3456, positives=12)
        ),
        validation=classify.SeedMetrics(),
        **aucs,
    )


def recommend_result(name: str) -> recommend.RecommendResult:
    """Return ranks that depend on the run's name."""
    metrics = ("mrr", *(f"recall_at_{k}" for k in (5, 10, 15, 20)))
    return recommend.RecommendResult(
        protocol=recommend.RecommendProtocol.of(
            "recommend", "tgn", inductive=True, candidates="", ties="", times=""
        ),
        **{s: results.RankMetrics(events=4, **{m: number(name, s, m) for m in metrics}) for s in SECTIONS},
    )


def interval_result(name: str) -> intervals.IntervalResult:
    """Return APs by interval that depend on the run's name."""
    return intervals.IntervalResult(
        protocol=intervals.IntervalProtocol.of(
            "intervals", "tgn", inductive=True, negatives="random", metrics="", sets=""
        ),
        intervals=dict.fromkeys(SETS),
        **{s: {x: results.LinkMetrics(ap=number(name, s, x), events=4) for x in SETS} for s in SECTIONS},
    )


def link_result(name: str) -> link.LinkResult:
    """Return APs and AUCs that depend on the run's name."""
    return link.LinkResult(
        protocol=link.LinkProtocol.of(
            "link", "tgn", inductive=True, negatives="random-any", metrics="", inductive_dyglib=""
        ),
        **{
            s: results.LinkMetrics(**{m: number(name, s, m) for m in ("ap", "auc")}, events=4)
            for s in (*SECTIONS, "inductive_dyglib")
        },
    )


RESULTS: dict[str, Callable[[str], results.TaskResult]] = {
    "classify": classify_result,
    "recommend": recommend_result,
    "intervals": interval_result,
    "link": link_result,
}


LINKS = "evaluations/link-negatives=random-any.json"


# --- looking at the results --------------------------------------------------------------------------


def group(plan: Plan, item: str, dataset: str, series: str = "") -> Group:
    [found] = [g for g in plan.groups[item] if (g.dataset, g.series) == (dataset, series)]
    return found


def runs(jobs: Sequence[Job], model: str, variant: str = "as given") -> list[Job]:
    return [job for job in jobs if (job.recipe.model, job.recipe.variant) == (model, variant)]


def metric(jobs: Sequence[Job], *path: str, file: str = "metrics.json") -> list[float]:
    """Read one number of each run from one of its files."""
    values = []
    for job in jobs:
        found: Any = json.loads((job.folder / file).read_text())
        for name in path:
            found = found[name]
        values.append(found)
    return values


def table_of(plan: Plan, item: str) -> Table:
    return plan.study.item(item).table(plan.study, plan.groups[item])


def grid(table: Table, title: str) -> Grid:
    [found] = [grid for grid in table.grids if grid.title == title]
    return found


def value(grid: Grid, label: str, column: str, section: str = "") -> Value:
    [line] = [line for line in grid.lines if (line.label, line.section) == (label, section)]
    return line.values[grid.columns.index(column)]


def expect(found: Value, shares: Sequence[float], paper: float = nan) -> None:
    """Check a value in % against numpy's mean and deviation of shares."""
    assert found.ours == pytest.approx((100 * np.mean(shares), 100 * np.std(shares, ddof=1)))
    assert found.seeds == len(shares)
    assert found.paper.mean == pytest.approx(paper, nan_ok=True)
