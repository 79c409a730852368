"""Jobs: every run is trained once, under its own settings, in a process with its share of the machine."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.finished import finish

from contig.experiments import jobs as working
from contig.experiments.evaluations import Evaluation
from contig.experiments.jobs import Job, Work, alone, environment, plan, run_jobs
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
    ended: list[Work] = []
    assert run_jobs(alone(jobs), device="cpu", ended=lambda job, reason: ended.append(job)) == []
    assert [c[:2] + c[4:6] for c in commands] == [["train", "mooc", "--seed", str(s)] for s in (0, 1, 0, 1)]
    assert [c[10:] for c in commands[2:]] == [["--set", "dim=8", "--set", "scope=all"]] * 2
    assert ended == jobs
    run_jobs(alone(jobs), device="cpu")
    assert len(commands) == 4  # what is done is not done again


def test_an_interrupted_run_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [job] = plan(TWO[:1], 1, tmp_path)
    finish(job)
    (job.folder / "metrics.json").unlink()
    commands = instead_of_training(monkeypatch, lambda _: 0)
    run_jobs([[job]], device="cpu")
    assert commands == [["resume", str(job.folder), "--device", "cpu"]]


def test_what_is_the_same_run_is_done_once(tmp_path: Path) -> None:
    twice = [TWO[0], replace(TWO[0], settings={"dim": "8"}), TWO[1]]
    assert len(plan(twice, 3, tmp_path)) == 6
    jobs = [job for recipe in twice for job in plan([recipe], 3, tmp_path)]
    assert [len(chain) for chain in alone(jobs)] == [1] * 6


def test_a_run_of_other_settings_or_events_is_not_taken_for_this_one(tmp_path: Path) -> None:
    base = Recipe("mooc", settings={"dim": 8}, fingerprint="old")
    others = [replace(base, settings={"dim": 8, "lr": 0.5}), replace(base, fingerprint="new")]
    [[job], *changed] = [plan([recipe], 1, tmp_path) for recipe in (base, *others)]
    finish(job)
    assert job.done
    assert not any(other.done for [other] in changed)


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
    ended: list[tuple[Work, str | None]] = []
    failures = run_jobs(alone(jobs), device="cpu", ended=lambda job, reason: ended.append((job, reason)))
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
    chains = [[job, Evaluation(job, "link")] for job in jobs]
    failures = run_jobs(chains, device="cpu")
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
        ("note: epoch 1", -2, "it was interrupted"),
        ("error: interrupted", 130, "it was interrupted"),
    ],
)
def test_the_reason_is_what_the_training_said_last(
    said: str, code: int, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [job] = plan(TWO[:1], 1, tmp_path)
    job.log.write_text("error: of an earlier time\n")
    saying(monkeypatch, said, code)
    [failure] = run_jobs([[job]])
    assert failure.reason == reason
    assert said.strip() in job.log.read_text()


def test_a_rule_needs_no_seeds(tmp_path: Path) -> None:
    assert [job.seed for job in plan([Recipe("mooc", "recency")], 4, tmp_path)] == [0]


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
    assert run_jobs(alone(jobs), at_once=2) == []
    assert [job.log.read_text() for job in jobs] == ["threads 3\n"] * 2


def test_an_interruption_is_no_failure_to_tell_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reaches the command itself, which says so; but the run is not done."""
    jobs = plan(TWO, 1, tmp_path)
    instead_of_training(monkeypatch, lambda command: 130 if "scope=all" in command else 1)
    told: list[Work] = []
    failed = run_jobs(alone(jobs), device="cpu", ended=lambda job, reason: told.append(job))
    assert [failure.job for failure in failed] == jobs
    assert told == jobs[:1]


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
        run_jobs([[job, Evaluation(job, "link")] for job in plan(TWO, 3, tmp_path)], device="cpu")
    assert len(commands) <= 1  # not even what follows from the job under way
