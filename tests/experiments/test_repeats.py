"""Repeats: every run is trained once, under its own settings, and the averages are those of the runs."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import mean, stdev
from types import SimpleNamespace
from typing import Any

import pytest

from contig.errors import ConfigError, RunError
from contig.experiments import repeats
from contig.experiments.recipes import Recipe
from contig.experiments.repeats import Job, collect, plan, run_jobs
from contig.files import write_json
from contig.training.config import RunConfig

Train = Callable[[Sequence[str]], int]


def finish(job: Job, ap: float = 0.9, *, inductive: bool = True) -> None:
    """Leave behind what a finished training would."""
    config = RunConfig.of(job.recipe.model, {**job.recipe.settings, "seed": job.seed})
    write_json(job.folder / "config.json", config.as_dict())
    found = {"ap": ap, "auc": ap - 0.1, "ap_overall": ap + 0.01, "auc_overall": ap - 0.2, "events": 7}
    metrics = {
        "transductive": found,
        "inductive": found if inductive else {"events": 0},
        "epochs": [{"train_seconds": 2.0}, {"train_seconds": 4.0}],
        "hardware": "abacus",
    }
    write_json(job.folder / "metrics.json", metrics)


def instead_of_training(patch: pytest.MonkeyPatch, train: Train) -> list[list[str]]:
    """Run ``train`` where a process would be started; the commands that would have started one."""
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> SimpleNamespace:
        commands.append(command[3:])
        return SimpleNamespace(returncode=train(command))

    patch.setattr(subprocess, "run", run)
    return commands


TWO = [
    Recipe("mooc", settings={"dim": 8}),
    Recipe("mooc", settings={"dim": 8, "scope": "all"}, variant="all"),
]


def test_every_recipe_with_every_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = plan(TWO, 2, tmp_path)
    by_folder = {str(job.folder): job for job in jobs}

    def train(command: Sequence[str]) -> int:
        finish(by_folder[command[command.index("--out") + 1]])
        return 0

    commands = instead_of_training(monkeypatch, train)
    ended: list[Job] = []
    run_jobs(jobs, device="cpu", ended=ended.append)
    assert [c[:2] + c[4:6] for c in commands] == [["train", "mooc", "--seed", str(s)] for s in (0, 1, 0, 1)]
    assert [c[10:] for c in commands[2:]] == [["--set", "dim=8", "--set", "scope=all"]] * 2
    assert ended == jobs
    run_jobs(jobs, device="cpu")
    assert len(commands) == 4  # what is done is not done again


def test_an_interrupted_run_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [job] = plan(TWO[:1], 1, tmp_path)
    finish(job)
    (job.folder / "metrics.json").unlink()
    commands = instead_of_training(monkeypatch, lambda _: 0)
    run_jobs([job], device="cpu")
    assert commands == [["resume", str(job.folder), "--device", "cpu"]]


@pytest.mark.parametrize("done", [True, False])
def test_a_run_of_other_settings_is_not_taken_for_this_one(done: bool, tmp_path: Path) -> None:
    """A recipe that was changed, say: its old results are not its results any more."""
    [job] = plan(TWO[:1], 1, tmp_path)
    finish(job)
    if not done:
        (job.folder / "metrics.json").unlink()
    [changed] = plan([Recipe("mooc", settings={"dim": 8, "lr": 0.5})], 1, tmp_path)
    with pytest.raises(RunError, match=r"mooc-contig-0 holds a run with lr=0\.0003.*lr=0\.5.*--out"):
        run_jobs([changed], device="cpu")


def test_one_folder_for_two_recipes_is_refused(tmp_path: Path) -> None:
    twins = [Recipe("a/mooc.csv"), Recipe("b/mooc.csv")]
    with pytest.raises(ConfigError, match="mooc-contig-0"):
        plan(twins, 1, tmp_path)
    assert len(plan([TWO[0], TWO[0]], 3, tmp_path)) == 3  # named twice, trained and counted once


def test_a_failure_stops_no_other_and_is_told_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = plan(TWO, 2, tmp_path)
    instead_of_training(monkeypatch, lambda command: 3 * (str(jobs[1].folder) in command))
    ended: list[Job] = []
    with pytest.raises(RunError, match=r"1 of 4 trainings.*mooc-contig-1 ended with exit code 3; see"):
        run_jobs(jobs, device="cpu", ended=ended.append)
    assert ended == [jobs[0], *jobs[2:]]


def test_after_an_interruption_nothing_new_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted = threading.Event()

    class Pool(ThreadPoolExecutor):
        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            super().shutdown(wait=False, cancel_futures=cancel_futures)
            interrupted.set()  # only now may the training under way end
            super().shutdown(wait=wait)

    def train(_: Sequence[str]) -> int:
        return 0 if interrupted.wait(10) else 1

    def interrupt(_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(repeats, "ThreadPoolExecutor", Pool)
    monkeypatch.setattr(repeats, "as_completed", interrupt)
    commands = instead_of_training(monkeypatch, train)
    with pytest.raises(KeyboardInterrupt):
        run_jobs(plan(TWO, 3, tmp_path), device="cpu")
    assert len(commands) <= 1


def test_the_rows_are_the_runs_averages(tmp_path: Path) -> None:
    jobs = plan(TWO, 3, tmp_path)
    found = [0.91, 0.95, 0.9]
    for job, ap in zip(jobs[:3], found, strict=True):
        finish(job, ap)
    [row] = collect(jobs)  # the other recipe has no result yet
    assert row.seeds == 3
    assert row.transductive["ap"] == pytest.approx((mean(found), stdev(found)))
    assert row.inductive["auc"] == pytest.approx((mean(found) - 0.1, stdev(found)))
    assert (row.epochs, row.epoch_seconds, row.hardware) == (2, 3.0, "abacus")


def test_a_stream_without_new_nodes_has_no_inductive_measures(tmp_path: Path) -> None:
    [job] = plan(TWO[:1], 1, tmp_path)
    finish(job, inductive=False)
    [row] = collect([job])
    told = json.loads(json.dumps(row.as_dict(), allow_nan=False))
    assert told["inductive"]["ap"] == {"mean": None, "std": None}
    assert told["transductive"]["ap"] == {"mean": 0.9, "std": 0.0}
