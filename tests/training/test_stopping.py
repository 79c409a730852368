"""A training that is asked to stop saves what it has, and resumes bit-identically."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest
import torch
from support.interrupted import STEPS, after_call, train
from support.trained import (
    identical_runs,
    load_saved,
    tiny_stream,
)

from contig.data.events import EventStream
from contig.errors import RunError
from contig.models import Model
from contig.runs.folder import RunFolder
from contig.runs.run import Run
from contig.tasks.link_scoring import LinkScorer
from contig.training.fit import Interrupted, resume
from contig.training.preparation import prepare
from contig.training.session import Session


def test_an_epoch_has_the_number_of_steps_that_these_tests_assume(reference: Path) -> None:
    config = RunFolder(reference).config()
    session = Session(prepare(tiny_stream(), config, torch.device("cpu")), config)
    assert len(session.steps) == STEPS


@pytest.mark.parametrize(
    ("step", "signum", "saved"),
    [
        (2, signal.SIGINT, (0, 2)),
        (5, signal.SIGTERM, (0, 5)),
        (STEPS, signal.SIGINT, (0, STEPS)),
        (STEPS + 1, signal.SIGINT, (1, 0)),  # nothing is lost but this step, which may take long to compile
        (2 * STEPS + 3, signal.SIGTERM, (2, 3)),
    ],
)
def test_a_stop_in_a_step(
    step: int,
    signum: signal.Signals,
    saved: tuple[int, int],
    stream: EventStream,
    reference: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        interrupted = after_call(step, Session.train_step, lambda: os.kill(os.getpid(), signum))
        patch.setattr(Session, "train_step", interrupted)
        with pytest.raises(Interrupted):
            train(stream, tmp_path / "run")
    progress = load_saved(tmp_path / "run", "checkpoint.pt")["progress"]
    assert (progress["epoch"], progress["step"]) == saved
    if step <= STEPS:  # no epoch has finished, so there is nothing to open
        with pytest.raises(RunError, match="contig resume"):
            Run.open(tmp_path / "run")
    resume(tmp_path / "run", show=False)
    assert identical_runs(tmp_path / "run", reference)


def stop_here(signum: signal.Signals) -> Callable[..., Any]:
    """A function that requests a stop and must not return."""

    def stop(*_: Any, **__: Any) -> None:
        signal.raise_signal(signum)
        pytest.fail("still running")

    return stop


def stopped_before(number: int, function: Callable[..., Any], signum: signal.Signals) -> Callable[..., Any]:
    """``function``, but its n-th call requests a stop instead."""
    calls = chain(repeat(function, number - 1), [stop_here(signum)])
    return lambda *args, **kwargs: next(calls)(*args, **kwargs)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_during_validation_keeps_the_epoch(
    signum: signal.Signals,
    stream: EventStream,
    reference: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(LinkScorer, "__call__", stopped_before(2, LinkScorer.__call__, signum))
        with pytest.raises(Interrupted):
            train(stream, tmp_path / "run")
    progress = load_saved(tmp_path / "run", "checkpoint.pt")["progress"]
    assert (progress["epoch"], progress["step"], len(progress["log"])) == (1, STEPS, 1)
    resume(tmp_path / "run", show=False)
    assert identical_runs(tmp_path / "run", reference)


def test_a_stop_while_the_model_is_prepared(
    stream: EventStream, reference: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Model, "prepare", stop_here(signal.SIGTERM))
        with pytest.raises(Interrupted):
            train(stream, tmp_path / "run")
    assert not (tmp_path / "run" / "checkpoint.pt").exists()
    resume(tmp_path / "run", show=False)
    assert identical_runs(tmp_path / "run", reference)


def test_a_stop_in_the_very_first_step(
    stream: EventStream, reference: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may compile for a minute."""
    with monkeypatch.context() as patch:
        patch.setattr(Session, "loss", stop_here(signal.SIGTERM))
        with pytest.raises(Interrupted):
            train(stream, tmp_path / "run")
    resume(tmp_path / "run", show=False)
    assert identical_runs(tmp_path / "run", reference)


def test_a_second_request_stops_at_once(
    stream: EventStream, reference: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def press_twice() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("still running")

    with monkeypatch.context() as patch:
        patch.setattr(Session, "train_step", after_call(12, Session.train_step, press_twice))
        with pytest.raises(KeyboardInterrupt):
            train(stream, tmp_path / "run")
    resume(tmp_path / "run", show=False)
    assert identical_runs(tmp_path / "run", reference)


def test_a_repeated_sigterm_is_one_request(
    stream: EventStream, reference: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process manager and a parent process may both send one."""

    def terminate_twice() -> None:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(Session, "train_step", after_call(12, Session.train_step, terminate_twice))
        with pytest.raises(Interrupted):
            train(stream, tmp_path / "run")
    assert load_saved(tmp_path / "run", "checkpoint.pt")["progress"]["step"] > 0
    resume(tmp_path / "run", show=False)
    assert identical_runs(tmp_path / "run", reference)


def test_the_signal_handlers_of_the_caller_are_restored(stream: EventStream, tmp_path: Path) -> None:
    before = [signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM)]
    train(stream, tmp_path / "run", epochs=1)
    assert [signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM)] == before
