"""One of several ranks: train models together and leave what they computed."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from contig.data.events import EventStream
from contig.models import EventBatch
from contig.ranks import ranks, restarted
from contig.runs.config import RunConfig
from contig.streaming.sharded import checked_layout
from contig.testing.causality import permute
from contig.training.fit import Interrupted, fit
from contig.training.preparation import prepare
from contig.training.session import Session
from support.precision import double_precision
from support.trained import TINY, fast_training, tiny_stream

NO_DROPOUT = {"dropout": 0.0, "evidence_dropout": 0.0}
SETTINGS: dict[str, Any] = {
    **{**TINY, **NO_DROPOUT, "tokens": 5, "width": 12},
    **{"epochs": 2, "batch_size": 31, "met_pairs": 0.2},
}


def settings_of(model: str) -> dict[str, Any]:
    """Return the settings of a model: without dropout, whose masks depend on the number of ranks."""
    from contig.models import model_class

    options = RunConfig.of(model, {})
    known = {*vars(options.train), *vars(options.model_options), *model_class(model).__annotations__}
    chosen = {name: value for name, value in SETTINGS.items() if name in known}
    return chosen if model_class(model).inductive else {**chosen, "holdout": "paper"}


def train(model: str, out: Path) -> dict[str, Any]:
    """Train a model and return its losses, its scores and its final state."""
    losses: list[float] = []
    step = Session.train_step

    def recorded(self: Session) -> torch.Tensor:
        if kill_at == len(losses) and ranks().rank == 1 and not restarted():
            os.kill(os.getpid(), signal.SIGKILL)
        if stop_at == len(losses) and ranks().rank == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        loss = step(self)
        losses.append(float(loss))
        return loss

    stop_at = int(os.environ.get("INTERRUPT_AT_STEP", "-1"))
    kill_at = int(os.environ.get("KILL_AT_STEP", "-1"))
    Session.train_step = recorded  # type: ignore[method-assign]
    try:
        run = fit(
            tiny_stream(),
            model,
            out=out,
            device="cpu",
            show=False,
            checkpoint_seconds=0,
            state=os.environ.get("STATE", "replicated"),
            **settings_of(model),
        )
    except Interrupted:
        return {"losses": losses}
    finally:
        Session.train_step = step  # type: ignore[method-assign]
    ranked = run.evaluate("recommend").result.transductive.mrr
    return {
        "losses": losses,
        "ap": run.metrics.transductive.ap,
        "mrr": ranked,
        "state": dict(run.state.rows),
        "weights": run.model.state_dict(),
    }


def nodes_updated(model: str, steps: int) -> list[list[int]]:
    """Return the nodes of each call of ``updated`` in the first steps of a training."""
    calls: list[list[int]] = []
    session = new_session(model, met_pairs=0.0)  # which are read in a call of their own
    compute = session.model.updated

    def recorded(state: Any, history: Any, nodes: torch.Tensor, as_of: torch.Tensor) -> torch.Tensor:
        calls.append(nodes.tolist())
        return compute(state, history, nodes, as_of)

    session.model.updated = recorded
    session.begin_epoch()
    for _ in range(steps):
        session.train_step()
    return calls


def losses_of_two_futures(model: str, first: int, steps: int) -> tuple[list[float], list[float]]:
    """Return this rank's own losses of some steps on a stream, and with other events from ``first`` on."""
    stream = tiny_stream()
    altered = permute(stream, first, np.random.default_rng(5))
    with double_precision():
        one, other = (new_session(model, each, holdout="none") for each in (stream, altered))
        other.model.load_state_dict(one.model.state_dict())  # its unit of time, too
        for session in (one, other):
            session.begin_epoch()
            session.draw_negatives()
        other._negative.copy_(one._negative)  # how they are drawn may depend on all events
        return own_losses(one, steps), own_losses(other, steps)


def own_losses(session: Session, steps: int) -> list[float]:
    """Take some steps, and return the losses of this rank's parts of the batches."""
    losses: list[float] = []

    def recorded(batch: EventBatch) -> torch.Tensor:
        loss = session.loss(batch)
        losses.append(float(loss.detach()))
        return loss

    session.walker._read = recorded
    for _ in range(steps):
        session.train_step()
    return losses


def new_session(model: str, stream: EventStream | None = None, **more: Any) -> Session:
    """Start a training with the layout that the environment names."""
    stream = tiny_stream() if stream is None else stream
    config = RunConfig.of(model, {**settings_of(model), **more}).for_stream(stream)
    layout = checked_layout(os.environ.get("STATE", "replicated"))
    return Session(prepare(stream, config, torch.device("cpu")), config, layout)


def step_losses(model: str, steps: int, batch_size: int = 7) -> list[float]:
    """Return the losses of the first steps of a training, in double precision."""
    losses: list[float] = []
    with double_precision():
        session = new_session(model, batch_size=batch_size)
        while len(losses) < steps:
            session.begin_epoch()
            left = min(len(session.steps), steps - len(losses))
            losses += [float(session.train_step()) for _ in range(left)]
            session.progress.epoch += 1
    return losses


def train_all(out: Path, models: Sequence[str]) -> None:
    """Train the models; every rank writes what it found."""
    torch.set_num_threads(1)
    here = ranks()
    for model in models:
        torch.save(train(model, out / model), out / f"{model}-{here.rank}.pt")


if __name__ == "__main__":
    with fast_training():
        train_all(Path(sys.argv[1]), sys.argv[2:])
