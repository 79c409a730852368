"""How far a training has come, and how that is read from its checkpoint."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import torch

from contig.runs.metrics import Epoch
from contig.runs.saved_model import is_generator_state, unfit
from contig.schema import decode

FORMER_NAMES = {"best_ap": "best_value"}  # in checkpoints before AP had alternatives


@dataclass
class Progress:
    """How far a training has come."""

    epoch: int = 0  # finished epochs
    step: int = 0  # finished steps of the current epoch
    loss: float = 0.0  # summed over those steps
    train_seconds: float = 0.0  # spent on them, before an interruption too
    best_value: float = -math.inf  # of the metric that chooses the best epoch
    best_epoch: int = 0  # counted from 1; 0 before the first has finished
    patience_from: int = 0  # the epoch in which training was last extended
    log: list[Epoch] = field(default_factory=list)  # the finished epochs


def read_progress(saved: Mapping[str, Any], steps: int, path: Path) -> Progress:
    """Read the progress in a checkpoint; raise ``RunError`` unless it fits epochs of ``steps`` steps."""
    saved = {FORMER_NAMES.get(name, name): value for name, value in saved.items()}
    if saved.keys() != {one.name for one in fields(Progress)} or not isinstance(saved["log"], list):
        raise unfit(path, "progress has other fields")
    for one in fields(Progress):
        value = saved[one.name]
        if one.name != "log" and not _is_valid(value, int if one.type == "int" else float):
            raise unfit(path, f"progress.{one.name} is {value!r}")
    if not (saved["step"] <= steps and saved["best_epoch"] <= len(saved["log"])):
        raise unfit(path, f"progress.step is {saved['step']!r} of {steps:,}")
    epochs = [decode(Epoch, row, path) for row in saved["log"]]
    if len(epochs) not in (saved["epoch"], saved["epoch"] + 1):
        raise unfit(path, f"progress.log has {len(epochs)} epochs, not {saved['epoch']}")
    return Progress(**{**saved, "log": epochs})


def _is_valid(value: Any, kind: type) -> bool:
    """Return whether a value is a count, or a number below infinity: the best value starts at -inf."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return (isinstance(value, int) and value >= 0) if kind is int else value < math.inf


def read_generators(saved: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Read the states of the random generators in a checkpoint; that of the GPU may be None."""
    if saved.keys() != {"torch", "cuda", "negatives"}:
        raise unfit(path, f"generators are {sorted(saved)}")
    for name, value in saved.items():
        if not (is_generator_state(value) or (name == "cuda" and value is None)):
            raise unfit(path, f"generators.{name} is not the state of a generator")
    if saved["torch"].shape != torch.get_rng_state().shape:
        raise unfit(path, "generators.torch is not the state of a generator")
    return dict(saved)
