"""Worker processes: no piece of work affects the next one or its neighbor."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import calls
from support.calls import Call

from contig.experiments.worker_process import INTERRUPTED
from contig.experiments.workers import WorkerPool, threads_each

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")

Run = Callable[..., tuple[str, str | None]]


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    """One slot, shared by the tests as it is by jobs."""
    with WorkerPool(1, threads=1) as pool:
        yield pool


@pytest.fixture
def run(pool: WorkerPool, tmp_path: Path) -> Run:
    """Call a function in the worker; return its log and why it failed."""

    def call(function: Callable[..., Any], *arguments: Any) -> tuple[str, str | None]:
        log = tmp_path / "logs" / f"{function.__name__}.log"
        pool.start(0, Call(log, function, arguments), "cpu")
        [(slot, reason)] = pool.wait()
        assert slot == 0
        return log.read_text(), reason

    return call


def test_everything_that_is_printed_goes_to_the_log(run: Run) -> None:
    log, reason = run(calls.print_in_many_ways)
    assert reason is None
    for text in ("printed", "logged", "UserWarning: warned", "written by native code", "of a child"):
        assert text in log
    again, _ = run(calls.print_in_many_ways)
    assert again.startswith(log)
    assert again.count("UserWarning: warned") == 2  # not only the first time


def test_settings_do_not_leak_to_the_next_work(run: Run) -> None:
    run(calls.load_torch)
    first, _ = run(calls.describe_process)
    assert run(calls.change_settings)[1] is None
    both, _ = run(calls.describe_process)
    assert both == first + first  # in the same process
    assert first.split()[1:3] == ["1", "1"]


@POSIX
@pytest.mark.parametrize(
    ("function", "reason", "logged"),
    [
        (calls.raise_data_error, "Column t is missing.", "DataError: Column t is missing."),
        (calls.raise_value_error, "ValueError: three", "Traceback (most recent call last)"),
        (calls.exit_silently, "its process exited with code 3", ""),
        (calls.kill_itself, "its process was killed by SIGKILL (out of memory?)", "about to be killed"),
        (calls.crash, "its process was killed by SIGSEGV", "Segmentation fault"),
        (calls.terminate_itself, INTERRUPTED, ""),
    ],
)
def test_a_failure_has_a_reason_and_the_slot_stays_usable(
    function: Callable[[], None], reason: str, logged: str, run: Run
) -> None:
    log, found = run(function)
    assert found == reason
    assert logged in log
    assert run(calls.print_in_many_ways)[1] is None


def test_a_fresh_worker_is_another_process(pool: WorkerPool, tmp_path: Path) -> None:
    for fresh in (False, False, True, False):
        pool.start(0, Call(tmp_path / "log", calls.print_process_id), "cpu", fresh=fresh)
        assert pool.wait() == [(0, None)]
    first, second, third, fourth = (tmp_path / "log").read_text().split()
    assert first == second != third == fourth


def test_work_may_have_child_processes(run: Run) -> None:
    log, reason = run(calls.print_from_a_child)
    assert (log, reason) == ("of a child process\n", None)


@POSIX
def test_children_of_a_dead_worker_are_killed(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    with WorkerPool(1) as pool:
        pool.start(0, Call(tmp_path / "log", calls.leave_a_child, (pipe,)), "cpu")
        with pipe.open() as file:
            assert file.readline().strip().isdecimal()
            [(_, reason)] = pool.wait()
            assert file.read() == ""  # which ends when the child does
    assert "SIGKILL" in str(reason)


def test_a_log_that_cannot_be_written_is_a_failure(pool: WorkerPool, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    pool.start(0, Call(tmp_path / "file" / "log", calls.print_process_id), "cpu")
    [(_, reason)] = pool.wait()
    assert "Error" in str(reason)
    assert str(tmp_path / "file") in str(reason)


@POSIX
def test_a_worker_that_dies_while_idle_is_replaced(pool: WorkerPool, run: Run) -> None:
    run(calls.print_in_many_ways)
    worker = pool._workers[0]
    assert worker is not None
    worker.process.kill()
    worker.process.join()
    assert run(calls.print_in_many_ways)[1] is None
    assert pool._workers[0] is not worker


@POSIX
def test_a_worker_that_dies_while_it_is_given_work_is_replaced(
    pool: WorkerPool, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process may die after it was found alive."""
    run(calls.print_in_many_ways)
    worker = pool._workers[0]
    assert worker is not None
    worker.process.kill()
    worker.process.join()
    monkeypatch.setattr(type(worker), "alive", True)
    assert run(calls.print_in_many_ways)[1] is None
    assert pool._workers[0] is not worker


@POSIX
def test_a_worker_that_dies_fails_only_its_own_work(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    with WorkerPool(2) as pool:
        pool.start(0, Call(tmp_path / "waits.log", calls.print_content, (pipe,)), "cpu")
        pool.start(1, Call(tmp_path / "dies.log", calls.kill_itself), "cpu")
        [(slot, reason)] = pool.wait()
        assert slot == 1
        assert "SIGKILL" in str(reason)
        pipe.write_text("continue")  # the other one has waited for this
        assert pool.wait() == [(0, None)]
    assert (tmp_path / "waits.log").read_text() == "continue\n"


@POSIX
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_worker_survives_its_parent(number: signal.Signals, tmp_path: Path) -> None:
    """A pipe that a worker holds open reaches its end when the worker is gone."""
    os.mkfifo(pipe := tmp_path / "pipe")
    command = [sys.executable, "-m", "support.calls", str(pipe), str(tmp_path / "log")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as parent:
        with pipe.open() as file:
            assert int(file.readline()) != parent.pid
            parent.send_signal(number)
            assert file.read() == ("" if number == signal.SIGKILL else "stopped\n")
        assert parent.wait() == (-signal.SIGKILL if number == signal.SIGKILL else 130)
        assert parent.stderr is not None
        assert parent.stderr.read() == ""


@pytest.mark.parametrize(
    ("cores", "workers", "limit", "threads"),
    [
        (8, 3, None, 2),
        (2, 5, None, 1),
        (8, 2, "3", 3),
        (8, 2, "7", 4),
        (8, 1, None, None),
        (8, 1, "7", None),  # torch reads the variable itself
    ],
)
def test_workers_share_the_cores(
    cores: int, workers: int, limit: str | None, threads: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if limit is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", limit)
    assert threads_each(workers) == threads
