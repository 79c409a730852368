"""Tuning: what is tried, what is kept, and what an interrupted study continues with."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("optuna", reason="needs the extra tune")

from support.commands import Answer

from contig import numerics
from contig.errors import ConfigError
from contig.experiments import jobs, tuning
from contig.experiments.jobs import Failure, Job
from contig.experiments.recipes import Recipe, read_recipes
from contig.experiments.tuning import Choices, Range, Study, parse_grid, save
from contig.runs.metrics import Epoch

RECIPE = Recipe("synthetic:300", "contig", {"epochs": 1}, fingerprint="x")


def test_grids_are_values_or_ranges() -> None:
    assert parse_grid(["lr=1e-4,3e-4", "dim=16..64", "loss=logistic,softmax", "dropout=0..0.5"]) == [
        Choices("lr", (1e-4, 3e-4)),
        Range("dim", 16, 64),
        Choices("loss", ("logistic", "softmax")),
        Range("dropout", 0, 0.5),
    ]
    assert Range("lr", 1e-5, 1e-2).log
    assert not Range("dim", 16, 64).log
    assert (Range("dim", 16, 64).whole, Range("x", 0, 0.5).whole) == (True, False)


@pytest.mark.parametrize("text", ["lr", "lr=", "=3", "lr=3..1", "lr=a..b"])
def test_other_grids_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--grid"):
        parse_grid([text])


@pytest.fixture
def quality(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are finished at once; their validation AP is best at lr 0.02 and dim 16."""

    def ap(job: Job) -> float:
        settings = job.recipe.settings
        return 0.9 - abs(math.log(settings["lr"] / 0.02)) / 100 - abs(settings.get("dim", 16) - 16) / 1000

    monkeypatch.setattr(Job, "done", property(lambda job: True))
    monkeypatch.setattr(tuning, "best_validation", ap)


def searched(study: Study, trials: int) -> Study:
    while study.finished < trials:
        study.tell(study.ask(1, every=study.size <= trials))
    return study


def test_a_grid_is_tried_completely(quality: None, tmp_path: Path) -> None:
    study = Study(RECIPE, parse_grid(["lr=0.01,0.02,0.1", "dim=8,16"]), tmp_path)
    assert study.size == 6
    tried = {tuple(sorted(one.settings.items())) for one in searched(study, 6).trials()}
    assert len(tried) == 6
    assert study.best().settings == {"lr": 0.02, "dim": 16}


def test_a_range_is_searched(quality: None, tmp_path: Path) -> None:
    study = Study(RECIPE, parse_grid(["lr=1e-4..1"]), tmp_path)
    assert study.size == math.inf
    values = [one.settings["lr"] for one in searched(study, 12).trials()]
    assert all(1e-4 <= value <= 1 for value in values)
    assert len(set(values)) == 12
    assert study.best().settings["lr"] == min(values, key=lambda lr: abs(math.log(lr / 0.02)))


def test_a_study_is_continued(quality: None, tmp_path: Path) -> None:
    grid = parse_grid(["lr=0.01,0.02,0.1"])
    first = searched(Study(RECIPE, grid, tmp_path), 2)
    before = [one.settings for one in first.trials()]
    first.ask(1)  # killed while it runs
    again = searched(Study(RECIPE, grid, tmp_path), 4)
    assert [one.settings for one in again.trials()][:2] == before
    assert {one.settings["lr"] for one in again.trials()} == {0.01, 0.02, 0.1}


@pytest.mark.parametrize("change", ["epochs", "grid", "events", "numerics"])
def test_another_study_shares_no_trials(
    change: str, quality: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched(Study(RECIPE, parse_grid(["lr=0.01,0.02"]), tmp_path), 2)
    recipe, grid = RECIPE, ["lr=0.02,0.01"]
    assert Study(recipe, parse_grid(["lr=0.01,0.02"]), tmp_path).finished == 2
    if change == "epochs":
        recipe = replace(RECIPE, settings={"epochs": 2})
    elif change == "grid":
        grid = ["lr=0.01,0.02", "dim=8,16"]
    elif change == "events":
        recipe = replace(RECIPE, fingerprint="y")
    else:
        monkeypatch.setattr(numerics, "VERSION", 99)
    other = Study(recipe, parse_grid(grid), tmp_path)
    assert other.finished == 0
    assert len({str(one.settings) for one in searched(other, int(other.size)).trials()}) == other.size


def test_trials_that_were_only_planned_are_forgotten(quality: None, tmp_path: Path) -> None:
    grid = parse_grid(["lr=0.01,0.02,0.1"])
    killed = Study(RECIPE, grid, tmp_path)
    for lr in (0.1, 0.01):
        killed._study.enqueue_trial({"lr": lr})
    again = searched(Study(RECIPE, grid, tmp_path), 3)
    assert sorted(one.settings["lr"] for one in again.trials()) == [0.01, 0.02, 0.1]


@pytest.mark.parametrize(
    ("recipe", "grid", "problem"),
    [
        (replace(RECIPE, settings={"epochs": 1, "final": True}), ["lr=0.1,0.2"], "no validation events"),
        (RECIPE, ["batch_size=10,20"], "cannot be compared; fix it with --set batch_size=VALUE"),
        (RECIPE, ["final=true,false"], "cannot be compared"),
        (RECIPE, ["seed=1,2"], "cannot be compared"),
        (RECIPE, ["monitor=ap,mrr"], "cannot be compared"),
        (Recipe("synthetic:300", "recency"), ["window=1,2"], "recency is a heuristic"),
    ],
)
def test_what_cannot_be_tuned_is_refused(recipe: Recipe, grid: list[str], problem: str, tmp_path) -> None:
    with pytest.raises(ConfigError, match=problem):
        Study(recipe, parse_grid(grid), tmp_path / "study")
    assert not (tmp_path / "study").exists()


def test_equal_values_count_once_and_a_name_is_given_once() -> None:
    assert parse_grid(["lr=1e-4,0.0001, 1e-4"]) == [Choices("lr", (1e-4,))]
    with pytest.raises(ConfigError, match="--grid lr is given twice"):
        parse_grid(["lr=1,2", "dim=3,4", "lr=5..6"])


def tune(out: Path, *more: str) -> Answer:
    return Answer("tune", "synthetic:300", "--grid", "lr=0.1,0.2", "--out", out, "--json", *more)


def test_failures_are_reported_although_no_trial_has_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(chains, **_: object) -> list[Failure]:
        return [Failure(chains[0][0], "out of memory")]

    monkeypatch.setattr(jobs, "run_jobs", fail)
    answer = tune(tmp_path / "study")
    assert "failed: out of memory" in " ".join(answer.refusal.split())
    assert not (tmp_path / "study" / "best.json").exists()


def test_a_search_ends_where_there_is_no_validation_ap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "run_jobs", lambda chains, **_: [])
    monkeypatch.setattr(Job, "done", property(lambda job: True))
    monkeypatch.setattr(tuning, "best_validation", lambda job: math.nan)
    assert "has no validation AP" in " ".join(tune(tmp_path / "study").refusal.split())


def test_trials_are_compared_by_the_monitored_metric(tmp_path: Path) -> None:
    """At 0.3 the AP is best, at 0.001 the AUC; both are read from the record of each run."""
    stream = {"epochs": 1, "monitor": "auc"}
    epochs = {0.3: (0.9, 0.6), 0.001: (0.7, 0.8)}

    class Finished(Job):
        done = True

        def metrics(self) -> Any:
            ap, auc = epochs[self.recipe.settings["lr"]]
            row = Epoch(
                epoch=1,
                loss=1,
                val_ap=ap,
                val_auc=auc,
                val_ap_inductive=0,
                train_seconds=1,
                events_per_second=1,
            )
            return SimpleNamespace(epochs=[row])

    best = {}
    for settings in (stream, {"epochs": 1}):
        study = Study(replace(RECIPE, settings=settings), parse_grid(["lr=0.3,0.001"]), tmp_path)
        for number, job in study.ask(2, every=True).items():
            study.tell({number: Finished(**vars(job))})
        best[study.metric] = study.best().settings["lr"], study.best().value
        save(study)
        assert f"val_{study.monitor}" in (tmp_path / "tune.csv").read_text()
    assert best == {"validation AUC": (0.001, 0.8), "validation AP": (0.3, 0.9)}


def test_a_failed_trial_is_no_result(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    study = Study(RECIPE, parse_grid(["lr=0.01,0.02"]), tmp_path)
    study.tell(study.ask(1))  # there is no run
    assert study.finished == 0
    with pytest.raises(ConfigError, match="no trial has finished"):
        study.best()


def test_the_best_recipe_can_be_trained(quality: None, tmp_path: Path) -> None:
    study = searched(Study(RECIPE, parse_grid(["lr=0.01,0.02", "dim=8..32"]), tmp_path), 3)
    save(study)
    [recipe] = read_recipes(tmp_path / "best.json")
    assert recipe.settings == {"epochs": 1, **study.best().settings}
    assert recipe.config(0).train.lr == study.best().settings["lr"]
    rows = (tmp_path / "tune.csv").read_text().splitlines()
    assert rows[0] == "trial,lr,dim,val_ap,run"
    assert len(rows) == 4
    assert (tmp_path / "tune.png").stat().st_size > 0
    assert json.loads((tmp_path / "best.json").read_text())["data"] == "synthetic:300"


def test_without_optuna_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    with pytest.raises(ConfigError, match=r"contig\[tune\]"):
        Study(RECIPE, [], tmp_path)
