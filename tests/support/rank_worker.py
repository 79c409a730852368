"""One of several ranks: train models together and leave what they computed."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from contig.ranks import ranks, restarted
from contig.training.fit import Interrupted, fit
from contig.training.session import Session
from support.trained import TINY, tiny_stream

SETTINGS: dict[str, Any] = {**TINY, "epochs": 2, "dropout": 0.0, "evidence_dropout": 0.0, "batch_size": 31}


def settings_of(model: str) -> dict[str, Any]:
    """Return the settings of a model: without dropout, whose masks depend on the number of ranks."""
    from contig.models import model_class
    from contig.runs.config import RunConfig

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


def train_all(out: Path, models: Sequence[str]) -> None:
    """Train the models; every rank writes what it found."""
    torch.set_num_threads(1)
    here = ranks()
    for model in models:
        torch.save(train(model, out / model), out / f"{model}-{here.rank}.pt")
