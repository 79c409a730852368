"""Rows: statistics over runs, and nothing lost when they are stored."""

from __future__ import annotations

import csv
import json
from math import isnan
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import pytest
from support.finished import finish

from contig.experiments.jobs import Failure, plan
from contig.experiments.recipes import Recipe
from contig.experiments.rows import SELECTIONS, Row, collect, write_csv
from contig.models.heuristics.edgebank import EdgeBank

TWO = [Recipe("mooc", "tgn"), Recipe("mooc", "tgn", {"dim": 8}, variant="small")]
APS = [0.91, 0.95, 0.9]


def cost(train: float, score: float, peak: int | None) -> dict[str, Any]:
    return {
        "events_per_second": {"train": train, "score": score},
        "peak_memory": {"bytes": peak, "of": "tensors on the GPU"},
    }


def some_rows(folder: Path) -> list[Row]:
    """A recipe with three finished runs; another with one finished, one failed and one missing run."""
    jobs = plan(TWO, 3, folder)
    for job, ap in zip(jobs[:3], APS, strict=True):
        finish(job, ap, **cost(1000 + job.seed, 200 * (1 + job.seed), 10_000 - job.seed))
    finish(jobs[3], 0.8, inductive=False)
    return collect(jobs, [Failure(jobs[4], "no luck")])


def test_statistics_over_the_runs(tmp_path: Path) -> None:
    complete, partial = some_rows(tmp_path)
    assert (complete.label, complete.seeds, complete.failures) == ("tgn", 3, ())
    assert complete.transductive.ap == pytest.approx((mean(APS), stdev(APS)))
    assert complete.inductive.auc == pytest.approx((mean(APS) - 0.1, stdev(APS)))
    assert complete.selection("inductive") is complete.inductive
    assert (complete.cost.epochs, complete.cost.epoch_seconds, complete.cost.parameters) == (2, 4.0, 1234)
    assert (complete.cost.train_speed, complete.cost.score_speed) == (1001, 400)
    assert complete.cost.peak_memory == 10_000  # the maximum
    assert complete.as_dict()["peak_memory_of"] == "tensors on the GPU"
    assert (partial.label, partial.seeds) == ("tgn, small", 1)
    assert [failure.reason for failure in partial.failures] == ["no luck"]


def test_a_recipe_without_finished_or_failed_runs_has_no_row(tmp_path: Path) -> None:
    jobs = plan(TWO, 1, tmp_path)
    finish(jobs[1])
    assert [row.label for row in collect(jobs)] == ["tgn, small"]


def test_undefined_numbers_are_null_in_json(tmp_path: Path) -> None:
    _, row = some_rows(tmp_path)
    content = json.loads(json.dumps(row.as_dict(), allow_nan=False))
    assert content["transductive"]["ap"] == {"mean": 0.8, "std": None}  # one seed
    assert content["inductive"]["ap"] == {"mean": None, "std": None}  # no events
    assert content["failures"] == [{"seed": 1, "reason": "no luck"}]


def test_a_failed_model_and_a_heuristic(tmp_path: Path) -> None:
    jobs = plan([Recipe("mooc", "jodie"), Recipe("mooc", "recency")], 2, tmp_path)
    finish(jobs[2], **cost(0.0, 50.0, None))
    failed, heuristic = collect(jobs, [Failure(job, "no") for job in jobs[:2]])
    assert (failed.seeds, failed.learns, heuristic.learns) == (0, True, False)
    assert isnan(failed.transductive.ap.mean)
    assert all(map(isnan, failed.cost))
    assert isnan(heuristic.cost.train_speed)  # it does not train
    assert isnan(heuristic.cost.peak_memory)  # unknown on this system
    json.dumps([failed.as_dict(), heuristic.as_dict()], allow_nan=False)


def test_the_csv_has_every_number_at_full_precision(tmp_path: Path) -> None:
    rows = some_rows(tmp_path)
    write_csv([row.as_flat_dict() for row in rows], tmp_path / "compare.csv")
    with (tmp_path / "compare.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [(line["data"], line["model"], line["variant"]) for line in lines] == [
        ("mooc", "tgn", "as given"),
        ("mooc", "tgn", "small"),
    ]
    for line, row in zip(lines, rows, strict=True):
        for name in SELECTIONS:
            for metric, spread in row.selection(name).each().items():
                for statistic, value in spread._asdict().items():
                    cell = line[f"{metric}_{name}_{statistic}"]
                    assert cell == "" if isnan(value) else float(cell) == value
        assert float(line["train_speed"]) == row.cost.train_speed
        assert float(line["peak_memory"]) == row.cost.peak_memory
    assert [line["failures"] for line in lines] == ["", "seed 1: no luck"]


def test_lines_may_have_different_columns(tmp_path: Path) -> None:
    write_csv([{"model": "tgn", "b": 1}, {"model": "gat", "c": 0.1, "b": None}], tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text().splitlines() == ["model,b,c", "tgn,1,", "gat,,0.1"]
    write_csv([], tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text().strip() == ""


class Seen(EdgeBank):
    """A model outside the package."""

    name = "seen"


class Taken(Seen):
    name = "tgn"


def test_tables_show_the_name_of_a_class() -> None:
    path = f"{__name__}:Seen"
    assert Row(Recipe("mooc", path), ()).label == "seen"
    assert Row(Recipe("mooc", path, variant="short"), ()).label == "seen, short"
    assert Row(Recipe("mooc", "contig.models.tgn:TGN"), ()).model == "tgn"
    taken = f"{__name__}:Taken"
    assert Row(Recipe("mooc", taken), ()).model == taken
