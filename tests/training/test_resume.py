"""An interrupted run ends with the very numbers of an uninterrupted one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from support.trained import (
    TINY,
    bit_identical,
    identical_runs,
    load_saved,
    text_id_stream,
    tiny_stream,
    without_costs,
)
from typer.testing import CliRunner

from contig.cli import app
from contig.data.events import EventStream
from contig.data.readers import read_events
from contig.errors import ConfigError, RunError
from contig.models import MODELS, model_class
from contig.runs.folder import RunFolder
from contig.runs.options import TrainOptions
from contig.tasks.link_scoring import LinkScorer
from contig.training import fit as fitting
from contig.training import loop
from contig.training.fit import Interrupted, fit, resume
from contig.training.preparation import prepare
from contig.training.session import Session

EPOCHS = 3


class Crash(Exception):
    """A power cut."""


def train(stream: EventStream, out: Path, **settings: Any) -> None:
    fit(stream, out=out, show=False, **{"epochs": EPOCHS, **TINY, **settings})


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory, stream: EventStream) -> Path:
    """Three epochs that nobody interrupts."""
    out = tmp_path_factory.mktemp("runs") / "reference"
    train(stream, out)
    return out


def at_call(number: int, function: Callable[..., Any], do: Callable[[], None]) -> Callable[..., Any]:
    """``function``, with ``do`` once at its n-th call, just after it."""
    calls = 0

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        result = function(*args, **kwargs)
        calls += 1
        if calls == number:
            do()
        return result

    return counted


def crash() -> None:
    raise Crash


STEPS = 8  # of an epoch, see test_the_epoch_is_as_long_as_these_tests_think


def test_the_epoch_is_as_long_as_these_tests_think(reference: Path) -> None:
    session = Session(
        prepare(tiny_stream(), RunFolder(reference).config(), torch.device("cpu")),
        RunFolder(reference).config(),
    )
    assert len(session.steps) == STEPS


# --- asked to stop ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "signum"),
    [
        (1, signal.SIGINT),
        (5, signal.SIGTERM),
        (STEPS, signal.SIGINT),
        (STEPS + 1, signal.SIGINT),
        (2 * STEPS + 3, signal.SIGTERM),
    ],
)
def test_a_stop_between_steps(
    step: int,
    signum: signal.Signals,
    stream: EventStream,
    reference: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        ask = at_call(step, Session.train_step, lambda: os.kill(os.getpid(), signum))
        patch.setattr(Session, "train_step", ask)
        with pytest.raises(Interrupted):
            train(stream, tmp_path / "run")
    progress = load_saved(tmp_path / "run", "checkpoint.pt")["progress"]
    assert (progress["epoch"], progress["step"]) == ((step - 1) // STEPS, (step - 1) % STEPS + 1)
    if step <= STEPS:  # no epoch is done that could answer
        with pytest.raises(RunError, match="contig resume"):
            fitting.Run.open(tmp_path / "run")
    resume(tmp_path / "run", show=False)
    assert identical_runs(tmp_path / "run", reference)


def test_a_stop_during_validation_is_granted_after_it(
    stream: EventStream, reference: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        ask = at_call(2, LinkScorer.__call__, lambda: signal.raise_signal(signal.SIGINT))
        patch.setattr(LinkScorer, "__call__", ask)
        with pytest.raises(Interrupted):
            train(stream, tmp_path / "run")
    progress = load_saved(tmp_path / "run", "checkpoint.pt")["progress"]
    assert (progress["epoch"], progress["step"], len(progress["log"])) == (2, 0, 2)
    resume(tmp_path / "run", show=False)
    assert identical_runs(tmp_path / "run", reference)


def test_a_second_request_ends_at_once(
    stream: EventStream, reference: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def press_twice() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("still running")

    with monkeypatch.context() as patch:
        patch.setattr(Session, "train_step", at_call(12, Session.train_step, press_twice))
        with pytest.raises(KeyboardInterrupt):
            train(stream, tmp_path / "run")
    resume(tmp_path / "run", show=False)
    assert identical_runs(tmp_path / "run", reference)


def test_the_handlers_of_the_caller_come_back(stream: EventStream, tmp_path: Path) -> None:
    before = [signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM)]
    train(stream, tmp_path / "run", epochs=1)
    assert [signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM)] == before


# --- struck down -----------------------------------------------------------------------------------------


def before_validation(patch: pytest.MonkeyPatch) -> None:
    validate = loop.Validation.__call__
    calls = iter((validate, lambda *_: crash()))
    patch.setattr(loop.Validation, "__call__", lambda *args: next(calls)(*args))


def in_the_middle_of_scoring(patch: pytest.MonkeyPatch, walk: int) -> None:
    """Walks over events by the scorer: validation of each epoch, then the test."""
    score, walks = LinkScorer.__call__, 0

    def scored(self: LinkScorer, events: Any, negative: Any, progress: Any) -> Any:
        nonlocal walks
        walks += 1
        some = at_call(2, progress, crash) if walks == walk else progress
        return score(self, events, negative, some)

    patch.setattr(LinkScorer, "__call__", scored)


def during_validation(patch: pytest.MonkeyPatch) -> None:
    in_the_middle_of_scoring(patch, 2)


def during_the_test(patch: pytest.MonkeyPatch) -> None:
    in_the_middle_of_scoring(patch, EPOCHS + 1)


def after_the_best_was_kept(patch: pytest.MonkeyPatch) -> None:
    save, best = RunFolder.save, 0

    def kept(self: RunFolder, name: str, content: Any) -> None:
        nonlocal best
        save(self, name, content)
        best += name == "best.pt"
        if name == "best.pt" and best == 1:
            raise Crash

    patch.setattr(RunFolder, "save", kept)


def in_the_middle_of_a_checkpoint(patch: pytest.MonkeyPatch) -> None:
    write, writes = torch.save, 0

    def written(content: Any, path: Path) -> None:
        nonlocal writes
        writes += 1
        if writes == 4:
            path.write_bytes(b"half of it")
            raise Crash
        write(content, path)

    patch.setattr(torch, "save", written)


def after_a_step(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Session, "train_step", at_call(STEPS + 4, Session.train_step, crash))


def before_the_first_checkpoint(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Session, "train_step", at_call(1, Session.train_step, crash))


def while_walking_the_whole_stream(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(loop, "replay", lambda *_: crash())


PLACES = [
    before_the_first_checkpoint,
    after_a_step,
    before_validation,
    during_validation,
    after_the_best_was_kept,
    in_the_middle_of_a_checkpoint,
    during_the_test,
    while_walking_the_whole_stream,
]


@pytest.mark.parametrize("seconds", [0.0, 1e9], ids=["often-kept", "kept-each-epoch"])
@pytest.mark.parametrize("place", PLACES)
def test_a_crash(
    place: Callable[[pytest.MonkeyPatch], None],
    seconds: float,
    stream: EventStream,
    reference: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        place(patch)
        with pytest.raises(Crash):
            train(stream, out, checkpoint_seconds=seconds)
    torch.manual_seed(12345)  # where the caller's generator stands must not matter
    resume(out, show=False)
    assert identical_runs(out, reference)


def test_two_crashes_and_a_stop(
    stream: EventStream, reference: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        during_validation(patch)
        with pytest.raises(Crash):
            train(stream, out)
    with monkeypatch.context() as patch:
        ask = at_call(2, Session.train_step, lambda: signal.raise_signal(signal.SIGTERM))
        patch.setattr(Session, "train_step", ask)
        with pytest.raises(Interrupted):
            resume(out, show=False)
    with monkeypatch.context() as patch:
        while_walking_the_whole_stream(patch)
        with pytest.raises(Crash):
            resume(out, show=False)
    resume(out, show=False)
    assert identical_runs(out, reference)


@pytest.mark.parametrize("model", [name for name in MODELS if model_class(name).learns])
def test_every_model_comes_back_whole(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Features of events and nodes too."""
    stream = tiny_stream(edge_features=5)
    rng = torch.Generator().manual_seed(1)
    stream = stream.with_node_features(torch.randn((stream.num_nodes, 4), generator=rng).numpy())
    known = {field.name for field in fields(model_class(model).options) + fields(TrainOptions)}
    settings = {key: value for key, value in TINY.items() if key in known}
    settings["split_seed"] = 1  # leaves validation events between known nodes, as some models need them
    fit(stream, model, out=tmp_path / "whole", epochs=2, show=False, **settings)
    with monkeypatch.context() as patch:
        patch.setattr(Session, "train_step", at_call(STEPS + 3, Session.train_step, crash))
        with pytest.raises(Crash):
            fit(stream, model, out=tmp_path / "run", epochs=2, show=False, checkpoint_seconds=0, **settings)
    resume(tmp_path / "run", show=False)
    assert identical_runs(tmp_path / "run", tmp_path / "whole")


def test_no_half_written_files_stay(tmp_path: Path, stream: EventStream) -> None:
    train(stream, tmp_path / "run", epochs=1)
    half = tmp_path / "run" / ".checkpoint.pt.x1y2.pt"
    half.write_bytes(b"half of it")
    resume(tmp_path / "run", show=False)
    assert not half.exists()


# --- longer ----------------------------------------------------------------------------------------------


def test_longer_is_the_same_as_long(stream: EventStream, reference: Path, tmp_path: Path) -> None:
    train(stream, tmp_path / "run", epochs=1)
    resume(tmp_path / "run", show=False, epochs=EPOCHS)
    assert identical_runs(tmp_path / "run", reference)


def test_a_wish_for_more_epochs_outlives_a_stop(
    stream: EventStream, reference: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(stream, tmp_path / "run", epochs=1)
    with monkeypatch.context() as patch:
        during_validation(patch)
        with pytest.raises(Crash):
            resume(tmp_path / "run", show=False, epochs=EPOCHS)
    assert RunFolder(tmp_path / "run").config().train.epochs == EPOCHS
    resume(tmp_path / "run", show=False)
    assert identical_runs(tmp_path / "run", reference)


@pytest.mark.parametrize("option", ["lr", "batch_size", "dim", "seed"])
def test_what_decides_the_numbers_cannot_change(option: str, reference: Path) -> None:
    with pytest.raises(ConfigError, match=f"{option} cannot change"):
        resume(reference, **{option: 1})


def test_a_rule_can_be_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = text_id_stream()
    fit(stream, "edgebank", out=tmp_path / "whole", show=False)
    with monkeypatch.context() as patch:
        in_the_middle_of_scoring(patch, 1)
        with pytest.raises(Crash):
            fit(stream, "edgebank", out=tmp_path / "run", show=False, batch_size=17)
    resume(tmp_path / "run", show=False)
    fit(stream, "edgebank", out=tmp_path / "other", show=False, batch_size=17)
    assert identical_runs(tmp_path / "run", tmp_path / "other")
    assert not identical_runs(tmp_path / "run", tmp_path / "whole")


# --- a real kill -----------------------------------------------------------------------------------------

LONG = 12  # epochs, with a checkpoint at every step: seconds of work to be caught in


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("events") / "events.csv"
    rows = zip(*(getattr(tiny_stream(), name).tolist() for name in ("src", "dst", "t")), strict=True)
    path.write_text("src,dst,t\n" + "".join(f"u{s},i{d},{t}\n" for s, d, t in rows))
    return path


@pytest.fixture(scope="module")
def undisturbed(events: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "undisturbed"
    train(read_events(events), out, epochs=LONG, patience=LONG)
    return out


def caught(events: Path, out: Path, signum: signal.Signals) -> tuple[int, str]:
    """Train in a process of its own, send it a signal in its second epoch or later, wait for its end."""
    settings = {**TINY, "patience": LONG, "checkpoint_seconds": 0}
    options = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    command = ["train", str(events), "--out", str(out), "--epochs", str(LONG), "--device", "cpu", *options]
    process = subprocess.Popen(
        [sys.executable, "-m", "contig", *command],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    try:
        while time.monotonic() < deadline and process.poll() is None:
            if (out / "checkpoint.pt").exists() and load_saved(out, "checkpoint.pt")["progress"][
                "epoch"
            ] >= 1:
                process.send_signal(signum)
                break
            time.sleep(0.01)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    return process.returncode, said


def test_kill_9(events: Path, undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    code, said = caught(events, out, signal.SIGKILL)
    assert code == -signal.SIGKILL, said
    assert not (out / "metrics.json").exists()
    went_on = CliRunner().invoke(app, ["resume", str(out), "--device", "cpu"])
    assert went_on.exit_code == 0, went_on.output
    assert identical_runs(out, undisturbed)


def test_a_polite_request(events: Path, undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    code, said = caught(events, out, signal.SIGINT)
    assert code == 130, said
    assert "nothing is lost" in said
    assert f"contig resume {out}" in said
    assert "Traceback" not in said
    resume(out, device="cpu", show=False)
    assert identical_runs(out, undisturbed)


def test_the_comparison_sees_a_difference(stream: EventStream, reference: Path, tmp_path: Path) -> None:
    train(stream, tmp_path / "run", seed=1)
    assert not identical_runs(tmp_path / "run", reference)
    assert not bit_identical(load_saved(tmp_path / "run", "best.pt"), load_saved(reference, "best.pt"))
    assert without_costs({"a": [{"train_seconds": 1, "b": 2}]}) == {"a": [{"b": 2}]}
