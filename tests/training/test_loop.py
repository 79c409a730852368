"""The training loop: against a plain one, when it stops, how it fails, how it ends."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.trained import TINY, bit_identical, load_saved, train_tiny
from torch.nn.functional import softplus

from contig.data.events import EventStream
from contig.data.negatives import Negatives
from contig.data.splits import chronological_split
from contig.errors import RunError
from contig.history import History, TimeScale
from contig.models import DataShape, EventBatch, NodeState
from contig.models.contig import ConTIG, ConTIGOptions
from contig.tasks.results import LinkMetrics
from contig.training import loop, validation
from contig.training.fit import Interrupted, resume
from contig.training.loop import draw_curve
from contig.training.optimizer import FlatAdam
from contig.training.session import Session


def trained_by_hand(stream: EventStream, epochs: int) -> ConTIG:
    """The training as one plain loop, without a schedule, a walker or a session."""
    split = chronological_split(stream)
    history = History.from_stream(stream).only(split.train)
    torch.manual_seed(0)
    options = ConTIGOptions(dim=8, time_dim=6, neighbors=3)
    model = ConTIG(options, DataShape(0, None, time_scale=TimeScale.of(history)))
    optimizer = FlatAdam(model, lr=TINY["lr"], weight_decay=0.0, clip=1.0)
    negatives = Negatives(stream, destinations=stream.dst[split.train], seed=0)
    times = stream.t[split.train]
    for _ in range(epochs):
        state = NodeState(model.blank(), stream.num_nodes)
        observed = 0
        for start in range(0, len(split.train), TINY["batch_size"]):
            model.train()
            batch = EventBatch.of(history, torch.from_numpy(split.train[start : start + 30]))
            wrong = negatives.draw(batch.event, batch.src)[:, 0]
            args = (batch.src, torch.stack([batch.dst, wrong], dim=1), batch.t, batch.t[0])
            logits = model.link(state, history, *args)
            true, false = softplus(-logits[:, 0]).mean(), softplus(logits[:, 1]).mean()
            ((true + false) / 2).backward()
            optimizer.step()
            following = times[start + 30 :]
            end = int(np.count_nonzero(times < following[0])) if len(following) else len(times)
            model.observe(state, history, EventBatch.of(history, torch.from_numpy(split.train[observed:end])))
            observed = end
    return model


def test_the_loop_equals_a_plain_one(stream: EventStream, tmp_path: Path) -> None:
    """To the last bit: both compute the same rows at the same places of the same batches."""
    train_tiny(stream, tmp_path / "run", epochs=2)
    weights = load_saved(tmp_path / "run", "checkpoint.pt")["weights"]
    expected = trained_by_hand(stream, 2).state_dict()
    untrained = trained_by_hand(stream, 0).state_dict()
    assert list(weights) == list(expected)
    for name, tensor in weights.items():
        assert torch.equal(tensor, expected[name]), name
    assert not bit_identical(untrained, expected)


def test_training_learns_a_simple_pattern(tmp_path: Path) -> None:
    """Nine events in ten have the same destination, so its activity separates it from a negative."""
    rng = np.random.default_rng(2)
    dst = np.where(rng.random(600) < 0.9, 100, rng.integers(101, 111, 600))
    stream = EventStream.from_arrays(rng.integers(0, 12, 600), dst, np.arange(600), origin="busy")
    run = train_tiny(stream, tmp_path / "run", epochs=8, holdout="paper")
    rows = run.metrics.epochs
    assert rows[-1].loss < 0.6 < rows[0].loss
    assert run.metrics.transductive.ap > 0.8


# -- when to stop ------------------------------------------------------------------------------------------


def script_validation(patch: pytest.MonkeyPatch, stream: EventStream, aps: list[float]) -> None:
    """Let validation report these APs, one after another."""
    report, scripted = validation.link_report, iter(aps)
    first_val = chronological_split(stream).val[0]

    def reported(stream: Any, split: Any, events: Any, *rest: Any, **named: Any) -> Any:
        real = report(stream, split, events, *rest, **named)
        if events[0] != first_val:
            return real
        return replace(real, transductive=LinkMetrics(ap=next(scripted), auc=0.5, events=9))

    patch.setattr(validation, "link_report", reported)


@pytest.mark.parametrize(
    ("aps", "epochs", "trained", "best"),
    [
        ([0.5, 0.6, 0.7, 0.69, 0.7, 0.3, 0.9], 9, 6, 3),  # an equal AP is no better
        ([0.5, 0.6, 0.7, 0.69, 0.7, 0.71, 0.1], 7, 7, 6),  # better at the last chance, then the limit
        ([0.9, 0.1, 0.1, 0.1, 0.95], 9, 4, 1),
        ([0.1, 0.2], 2, 2, 2),
    ],
)
def test_patience(
    aps: list[float],
    epochs: int,
    trained: int,
    best: int,
    stream: EventStream,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script_validation(monkeypatch, stream, aps)
    run = train_tiny(stream, tmp_path / "run", epochs=epochs, patience=3)
    assert [row.val_ap for row in run.metrics.epochs] == aps[:trained]
    assert run.metrics.best_epoch == best
    assert load_saved(tmp_path / "run", "best.pt")["epoch"] == best


def test_a_finished_run_has_the_weights_of_its_best_epoch(
    stream: EventStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script_validation(monkeypatch, stream, [0.5, 0.9, 0.3, 0.2, 0.5, 0.9])
    run = train_tiny(stream, tmp_path / "long", epochs=4)
    short = train_tiny(stream, tmp_path / "short", epochs=2)
    assert bit_identical(run.model.state_dict(), short.model.state_dict())
    assert run.metrics.transductive == short.metrics.transductive
    assert not bit_identical(
        run.model.state_dict(), load_saved(tmp_path / "long", "checkpoint.pt")["weights"]
    )


# -- failures ----------------------------------------------------------------------------------------------


def test_a_diverging_loss_stops_the_training(stream: EventStream, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"became NaN or infinite \(epoch 1.*lr=3e\+29.*clip=0\.5"):
        train_tiny(stream, tmp_path / "run", lr=1e30)
    assert not (tmp_path / "run" / "metrics.json").exists()


def test_nan_weights_are_found_in_validation(
    stream: EventStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Session.train_step

    def spoiled(self: Session) -> torch.Tensor:
        loss = step(self)
        if self.progress.step == len(self.steps):
            with torch.no_grad():
                next(self.model.parameters()).fill_(torch.nan)
        return loss

    monkeypatch.setattr(Session, "train_step", spoiled)
    with pytest.raises(RunError, match="became NaN or infinite"):
        train_tiny(stream, tmp_path / "run")
    assert not (tmp_path / "run" / "best.pt").exists()


def test_no_checkpoint_is_saved_after_the_loss_became_nan(
    stream: EventStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Session.train_step
    monkeypatch.setattr(
        Session, "train_step", lambda self: step(self) * (torch.nan if self.progress.step == 4 else 1)
    )
    with pytest.raises(RunError, match="around step 4"):
        train_tiny(stream, tmp_path / "run", checkpoint_seconds=0)
    assert load_saved(tmp_path / "run", "checkpoint.pt")["progress"]["step"] == 3


# -- the end -----------------------------------------------------------------------------------------------


def test_a_stop_is_granted_during_the_last_walk(
    stream: EventStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk = loop.replay_stream

    def interrupted(*args: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        walk(*args)

    monkeypatch.setattr(loop, "replay_stream", interrupted)
    with pytest.raises(Interrupted):
        train_tiny(stream, tmp_path / "run")
    assert not (tmp_path / "run" / "serving.pt").exists()


def test_the_best_epoch_is_that_of_the_tested_weights(stream: EventStream, tmp_path: Path) -> None:
    """A kill between saving best.pt and the checkpoint may leave two different best epochs."""
    run = train_tiny(stream, tmp_path / "run", epochs=2)
    best = run.folder.load("best.pt")
    other = 3 - best["epoch"]
    run.folder.save("best.pt", best | {"epoch": other})
    (run.path / "metrics.json").unlink()
    assert resume(run.path, show=False).metrics.best_epoch == other


def test_the_curve_is_drawn(stream: EventStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "draw_curve", draw_curve)
    train_tiny(stream, tmp_path / "run")
    assert (tmp_path / "run" / "curve.png").read_bytes()[:4] == b"\x89PNG"
