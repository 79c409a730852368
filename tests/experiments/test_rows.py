"""Rows: averages are those of the runs, and what is kept is what was found."""

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
from contig.experiments.rows import Row, collect, write_csv

TWO = [Recipe("mooc", "tgn"), Recipe("mooc", "tgn", {"dim": 8}, variant="small")]
FOUND = [0.91, 0.95, 0.9]


def cost(train: float, score: float, peak: int | None) -> dict[str, Any]:
    return {
        "events_per_second": {"train": train, "score": score},
        "peak_memory": {"bytes": peak, "of": "tensors on the GPU"},
    }


def some_rows(folder: Path) -> list[Row]:
    """One recipe done, the other done with one seed, failed with another and not begun with the last."""
    jobs = plan(TWO, 3, folder)
    for job, ap in zip(jobs[:3], FOUND, strict=True):
        finish(job, ap, **cost(1000 + job.seed, 200 * (1 + job.seed), 10_000 - job.seed))
    finish(jobs[3], 0.8, inductive=False)
    return collect(jobs, [Failure(jobs[4], "no luck")])


def test_the_rows_are_the_runs_averages(tmp_path: Path) -> None:
    whole, part = some_rows(tmp_path)
    assert (whole.label, whole.seeds, whole.failures) == ("tgn", 3, ())
    assert whole.transductive["ap"] == pytest.approx((mean(FOUND), stdev(FOUND)))
    assert whole.inductive["auc"] == pytest.approx((mean(FOUND) - 0.1, stdev(FOUND)))
    assert (whole.cost.epochs, whole.cost.epoch_seconds, whole.cost.parameters) == (2, 3.0, 1234)
    assert (whole.cost.train_speed, whole.cost.score_speed) == (1001, 400)
    assert whole.cost.peak_memory == 10_000  # the most of any seed
    assert whole.about["peak_memory_of"] == "tensors on the GPU"
    assert (part.label, part.seeds) == ("tgn, small", 1)
    assert [failure.reason for failure in part.failures] == ["no luck"]


def test_what_is_neither_done_nor_failed_has_no_row(tmp_path: Path) -> None:
    jobs = plan(TWO, 1, tmp_path)
    finish(jobs[1])
    assert [row.label for row in collect(jobs)] == ["tgn, small"]


def test_one_seed_has_no_deviation_and_an_empty_selection_no_measures(tmp_path: Path) -> None:
    _, row = some_rows(tmp_path)
    told = json.loads(json.dumps(row.as_dict(), allow_nan=False))
    assert told["transductive"]["ap"] == {"mean": 0.8, "std": None}
    assert told["inductive"]["ap"] == {"mean": None, "std": None}
    assert told["failures"] == [{"seed": 1, "reason": "no luck"}]


def test_a_failed_row_and_a_rule(tmp_path: Path) -> None:
    jobs = plan([Recipe("mooc", "jodie"), Recipe("mooc", "recency")], 2, tmp_path)
    finish(jobs[2], **cost(0.0, 50.0, None))
    failed, rule = collect(jobs, [Failure(job, "no") for job in jobs[:2]])
    assert (failed.seeds, failed.learns, rule.learns) == (0, True, False)
    assert isnan(failed.transductive["ap"].mean)
    assert all(map(isnan, failed.cost))
    assert isnan(rule.cost.train_speed)  # it does not train
    assert isnan(rule.cost.peak_memory)  # a system that does not tell
    json.dumps([failed.as_dict(), rule.as_dict()], allow_nan=False)


def test_the_csv_holds_every_number_as_it_is(tmp_path: Path) -> None:
    rows = some_rows(tmp_path)
    write_csv(rows, tmp_path / "compare.csv")
    with (tmp_path / "compare.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [(line["data"], line["model"], line["variant"]) for line in lines] == [
        ("mooc", "tgn", "as given"),
        ("mooc", "tgn", "small"),
    ]
    for line, row in zip(lines, rows, strict=True):
        for selection in ("transductive", "inductive"):
            for measure, spread in getattr(row, selection).items():
                for what, value in spread._asdict().items():
                    cell = line[f"{measure}_{selection}_{what}"]
                    assert cell == "" if isnan(value) else float(cell) == value
        assert float(line["train_speed"]) == row.cost.train_speed
        assert float(line["peak_memory"]) == row.cost.peak_memory
    assert [line["failures"] for line in lines] == ["", "seed 1: no luck"]
