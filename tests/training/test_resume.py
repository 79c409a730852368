"""A resumed run is bit-identical to an uninterrupted one, wherever it was stopped, crashed or killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from support.interrupted import EPOCHS, STEPS, Crash, after_call, crash, train
from support.processes import fork, join
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
from contig.errors import ConfigError
from contig.models import MODELS, model_class
from contig.runs.folder import RunFolder
from contig.runs.options import TrainOptions
from contig.tasks.link_scoring import LinkScorer
from contig.training import loop
from contig.training.fit import Interrupted, fit, resume
from contig.training.session import Session

# -- crashes -----------------------------------------------------------------------------------------------


def before_validation(patch: pytest.MonkeyPatch) -> None:
    """Of the second epoch."""
    validate = loop.Validation.__call__
    calls = iter((validate, lambda *_: crash()))
    patch.setattr(loop.Validation, "__call__", lambda *args: next(calls)(*args))


def while_scoring(patch: pytest.MonkeyPatch, walk: int) -> None:
    """In the n-th walk of the scorer: one validation per epoch, then the test."""
    score, walks = LinkScorer.__call__, 0

    def scored(self: LinkScorer, events: Any, negative: Any, progress: Any = lambda events: None) -> Any:
        nonlocal walks
        walks += 1
        crashing = after_call(2, progress, crash) if walks == walk else progress
        return score(self, events, negative, crashing)

    patch.setattr(LinkScorer, "__call__", scored)


def during_validation(patch: pytest.MonkeyPatch) -> None:
    while_scoring(patch, 2)


def during_the_test(patch: pytest.MonkeyPatch) -> None:
    while_scoring(patch, EPOCHS + 1)


def after_the_first_best_epoch_was_saved(patch: pytest.MonkeyPatch) -> None:
    save = RunFolder.save

    def crashing(self: RunFolder, name: str, content: Any) -> None:
        save(self, name, content)
        if name == "best.pt":
            raise Crash

    patch.setattr(RunFolder, "save", crashing)


def while_writing_a_checkpoint(patch: pytest.MonkeyPatch) -> None:
    write, writes = torch.save, 0

    def half_written(content: Any, path: Any) -> None:
        nonlocal writes
        writes += 1
        if writes == 4:
            path.write(b"half of it")
            raise Crash
        write(content, path)

    patch.setattr(torch, "save", half_written)


def after_a_step(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Session, "train_step", after_call(STEPS + 4, Session.train_step, crash))


def before_the_first_checkpoint(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Session, "train_step", after_call(1, Session.train_step, crash))


def while_walking_the_whole_stream(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(loop, "replay_stream", lambda *_: crash())


CRASHES = [
    before_the_first_checkpoint,
    after_a_step,
    before_validation,
    during_validation,
    after_the_first_best_epoch_was_saved,
    while_writing_a_checkpoint,
    during_the_test,
    while_walking_the_whole_stream,
]


@pytest.mark.parametrize("seconds", [0.0, 1e9], ids=["checkpoint-per-step", "checkpoint-per-epoch"])
@pytest.mark.parametrize("crashing", CRASHES)
def test_resuming_after_a_crash(
    crashing: Callable[[pytest.MonkeyPatch], None],
    seconds: float,
    stream: EventStream,
    reference: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        crashing(patch)
        with pytest.raises(Crash):
            train(stream, out, checkpoint_seconds=seconds)
    torch.manual_seed(12345)  # the state of the caller's generator must not matter
    resume(out, show=False)
    assert identical_runs(out, reference)


def test_resuming_after_two_crashes_and_a_stop(
    stream: EventStream, reference: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        during_validation(patch)
        with pytest.raises(Crash):
            train(stream, out)
    with monkeypatch.context() as patch:
        interrupted = after_call(2, Session.train_step, lambda: signal.raise_signal(signal.SIGTERM))
        patch.setattr(Session, "train_step", interrupted)
        with pytest.raises(Interrupted):
            resume(out, show=False)
    with monkeypatch.context() as patch:
        while_walking_the_whole_stream(patch)
        with pytest.raises(Crash):
            resume(out, show=False)
    resume(out, show=False)
    assert identical_runs(out, reference)


@pytest.mark.parametrize("model", [name for name in MODELS if model_class(name).learns])
def test_resuming_every_model(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With features of events and of nodes."""
    stream = tiny_stream(edge_features=5)
    rng = torch.Generator().manual_seed(1)
    stream = stream.with_node_features(torch.randn((stream.num_nodes, 4), generator=rng).numpy())
    known = {field.name for field in fields(model_class(model).options) + fields(TrainOptions)}
    sizes = TINY | {"sequence": 4, "channel_dim": 4, "sketch_dim": 8}
    settings = {key: value for key, value in sizes.items() if key in known}
    settings["split_seed"] = 1  # leaves validation events between known nodes, which some models need
    fit(stream, model, out=tmp_path / "whole", epochs=2, show=False, **settings)
    with monkeypatch.context() as patch:
        patch.setattr(Session, "train_step", after_call(STEPS + 3, Session.train_step, crash))
        with pytest.raises(Crash):
            fit(stream, model, out=tmp_path / "run", epochs=2, show=False, checkpoint_seconds=0, **settings)
    resume(tmp_path / "run", show=False)
    assert identical_runs(tmp_path / "run", tmp_path / "whole")


def test_half_written_files_are_removed(tmp_path: Path, stream: EventStream) -> None:
    train(stream, tmp_path / "run", epochs=1)
    half = tmp_path / "run" / ".checkpoint.pt.x1y2z3w4.pt"
    half.write_bytes(b"half of it")
    resume(tmp_path / "run", show=False)
    assert not half.exists()


# -- training longer ---------------------------------------------------------------------------------------


def test_an_extended_run_equals_a_longer_one(stream: EventStream, reference: Path, tmp_path: Path) -> None:
    train(stream, tmp_path / "run", epochs=1)
    resume(tmp_path / "run", show=False, epochs=EPOCHS)
    assert identical_runs(tmp_path / "run", reference)


def test_a_raised_limit_of_epochs_outlives_a_crash(
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
def test_options_that_decide_the_numbers_cannot_change(option: str, reference: Path) -> None:
    with pytest.raises(ConfigError, match=f"{option} cannot change"):
        resume(reference, **{option: 1})


def test_a_heuristic_can_be_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = text_id_stream()
    fit(stream, "edgebank", out=tmp_path / "whole", show=False)
    with monkeypatch.context() as patch:
        while_scoring(patch, 1)
        with pytest.raises(Crash):
            fit(stream, "edgebank", out=tmp_path / "run", show=False, batch_size=17)
    resume(tmp_path / "run", show=False)
    fit(stream, "edgebank", out=tmp_path / "other", show=False, batch_size=17)
    assert identical_runs(tmp_path / "run", tmp_path / "other")
    assert not identical_runs(tmp_path / "run", tmp_path / "whole")


# -- a real kill -------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a process to kill")
def test_kill_9(stream: EventStream, reference: Path, tmp_path: Path) -> None:
    """A process that is killed while it writes a checkpoint of the second epoch."""
    out = tmp_path / "run"
    first_epoch = STEPS + 2  # a checkpoint per step and one at the end, and the best epoch
    write, writes = torch.save, 0

    def killed(content: Any, path: Any) -> None:
        nonlocal writes
        writes += 1
        if writes == first_epoch + 5:
            path.write(b"half of it")
            path.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        write(content, path)

    def use() -> int:
        torch.save = killed
        train(stream, out, checkpoint_seconds=0, device="cpu")
        return 0

    assert join(fork(use)) == -signal.SIGKILL
    progress = load_saved(out, "checkpoint.pt")["progress"]
    assert (progress["epoch"], progress["step"]) == (1, 4)
    assert not (out / "metrics.json").exists()
    resumed = CliRunner().invoke(app, ["resume", str(out), "--device", "cpu"])
    assert resumed.exit_code == 0, resumed.output
    assert identical_runs(out, reference)


def test_the_comparison_of_runs_finds_a_difference(
    stream: EventStream, reference: Path, tmp_path: Path
) -> None:
    train(stream, tmp_path / "run", seed=1)
    assert not identical_runs(tmp_path / "run", reference)
    assert not bit_identical(load_saved(tmp_path / "run", "best.pt"), load_saved(reference, "best.pt"))
    assert without_costs({"a": [{"train_seconds": 1, "b": 2}]}) == {"a": [{"b": 2}]}
