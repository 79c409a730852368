"""Jobs: every run is trained once, under its own settings, in a process with its share of the machine."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from finished import finish

from contig.errors import ConfigError, RunError
from contig.experiments import jobs as working
from contig.experiments.evaluations import Evaluation
from contig.experiments.jobs import Job, environment, plan, run_jobs
from contig.experiments.recipes import Recipe

Train = Callable[[Sequence[str]], int]


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
    assert run_jobs(jobs, device="cpu", ended=lambda job, reason: ended.append(job)) == []
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
    with pytest.raises(
        RunError, match=r"mooc-contig-0 holds a run with lr=0\.0003.*asked for is lr=0\.5.*--out"
    ):
        run_jobs([changed], device="cpu")


def test_one_folder_for_two_recipes_is_refused(tmp_path: Path) -> None:
    twins = [Recipe("a/mooc.csv"), Recipe("b/mooc.csv")]
    with pytest.raises(ConfigError, match="mooc-contig-0"):
        plan(twins, 1, tmp_path)
    assert len(plan([TWO[0], TWO[0]], 3, tmp_path)) == 3  # named twice, trained and counted once


def saying(patch: pytest.MonkeyPatch, said: str, code: int) -> None:
    """Start a process that says this and ends so, where a training would be started."""
    program = f"import sys; print({said!r}); sys.exit({code})"
    if code < 0:
        program = f"import os; print({said!r}, flush=True); os.kill(os.getpid(), {-code})"
    patch.setattr(Job, "command", lambda job, device: [sys.executable, "-c", program])


def test_a_failure_stops_no_other_and_tells_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = plan(TWO, 2, tmp_path)
    instead_of_training(monkeypatch, lambda command: 3 * (str(jobs[1].folder) in command))
    ended: list[tuple[Job, str | None]] = []
    failures = run_jobs(jobs, device="cpu", ended=lambda job, reason: ended.append((job, reason)))
    reason = "it ended with exit code 3 and said nothing"
    assert failures == [(jobs[1], reason)]
    assert ended == [(jobs[0], None), (jobs[1], reason), (jobs[2], None), (jobs[3], None)]


def test_what_follows_from_a_job_comes_right_after_it_if_it_went_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = plan(TWO, 2, tmp_path)
    finish(jobs[1])  # its training is done, what follows is not

    def train(command: Sequence[str]) -> int:
        if str(jobs[0].folder) in command and "train" in command:
            return 3
        if "train" in command:
            finish(next(job for job in jobs if str(job.folder) in command))
        return 0

    commands = instead_of_training(monkeypatch, train)
    failures = run_jobs(jobs, device="cpu", then=lambda job: [Evaluation(job, "link")])
    assert [failure.job for failure in failures] == [jobs[0]]
    done = [(command[0], Path(command[command.index("--out") + 1])) for command in commands]
    measured = [("evaluate", Evaluation(job, "link").file) for job in jobs]
    trained = [("train", job.folder) for job in jobs]
    assert done == [trained[0], measured[1], trained[2], measured[2], trained[3], measured[3]]


@pytest.mark.parametrize(
    ("said", "code", "reason"),
    [
        ("note: epoch 1\nerror: The loss is not a number.\n", 2, "The loss is not a number."),
        ("Traceback:\n  File x\nValueError: three\n\n", 1, "ValueError: three"),
        ("note: epoch 1", -9, "it was killed by signal 9 (out of memory?)"),
    ],
)
def test_the_reason_is_what_the_training_said_last(
    said: str, code: int, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [job] = plan(TWO[:1], 1, tmp_path)
    job.log.write_text("error: of an earlier time\n")
    saying(monkeypatch, said, code)
    [failure] = run_jobs([job])
    assert failure.reason == reason
    assert said.strip() in job.log.read_text()


def test_a_rule_needs_no_seeds(tmp_path: Path) -> None:
    assert [job.seed for job in plan([Recipe("mooc", "recency")], 4, tmp_path)] == [0]


def test_a_run_of_other_events_is_not_taken_for_this_one(tmp_path: Path) -> None:
    [job] = plan([Recipe("mooc", fingerprint="old")], 1, tmp_path)
    finish(job)
    assert run_jobs([job]) == []
    [changed] = plan([Recipe("mooc", fingerprint="new")], 1, tmp_path)
    with pytest.raises(RunError, match=r"holds a run with other events.*mooc holds now"):
        run_jobs([changed])


def test_the_data_is_read_as_the_recipe_says(tmp_path: Path) -> None:
    [job] = plan([Recipe("visits.csv", reading=("--src", "who"))], 1, tmp_path)
    command = job.command("cpu")
    assert command[command.index("--src") + 1] == "who"


# --- the machine is shared -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cores", "at_once", "asked", "threads"),
    [
        (8, 3, None, "2"),
        (2, 5, None, "1"),
        (8, 2, "3", "3"),  # the user wants fewer
        (8, 2, "7", "4"),
        (8, 1, None, None),  # alone: as torch likes it
        (8, 1, "7", "7"),
    ],
)
def test_trainings_at_once_share_the_threads(
    cores: int, at_once: int, asked: str | None, threads: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if asked is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", asked)
    assert environment(at_once).get("OMP_NUM_THREADS") == threads
    assert environment(at_once)["PATH"] == os.environ["PATH"]


def test_every_training_is_told_its_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    jobs = plan(TWO, 1, tmp_path)
    program = "import os; print('threads', os.environ['OMP_NUM_THREADS'])"
    monkeypatch.setattr(Job, "command", lambda job, device: [sys.executable, "-c", program])
    assert run_jobs(jobs, at_once=2) == []
    assert [job.log.read_text() for job in jobs] == ["threads 3\n"] * 2


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

    monkeypatch.setattr(working, "ThreadPoolExecutor", Pool)
    monkeypatch.setattr(working, "as_completed", interrupt)
    commands = instead_of_training(monkeypatch, train)
    with pytest.raises(KeyboardInterrupt):
        run_jobs(plan(TWO, 3, tmp_path), device="cpu")
    assert len(commands) <= 1
