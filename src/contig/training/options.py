"""What can be chosen about a training, whatever the model."""

from __future__ import annotations

from dataclasses import dataclass

from contig.errors import ConfigError
from contig.options import option
from contig.splits import Rule


@dataclass(frozen=True)
class TrainOptions:
    """One training's settings."""

    epochs: int = option(50, "passes over the training events at most; early stopping usually ends before")
    batch_size: int = option(200, "events scored before they are observed; part of every result")
    lr: float = option(3e-4, "Adam's step size; the paper's 1e-4 learns the same more slowly")
    weight_decay: float = option(0.0, "L2 penalty of Adam")
    clip: float = option(1.0, "largest norm of a gradient; single bursts otherwise upset the states")
    patience: int = option(5, "epochs without a better validation AP before stopping")
    seed: int = option(0, "of weights, dropout and training negatives")
    rule: Rule = option(
        "tgn", "which nodes are new: tgn hides a tenth of the nodes from training, paper none"
    )
    split_seed: int = option(2020, "of the hidden nodes; apart from seed, so that seeds share their events")
    checkpoint_seconds: float = option(60.0, "longest training time an interrupted run can lose")

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "patience"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}={getattr(self, name)}: give at least 1.")
        for name in ("lr", "clip"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name}={getattr(self, name)}: give a number above 0.")
        for name in ("weight_decay", "checkpoint_seconds"):
            if not getattr(self, name) >= 0:
                raise ConfigError(f"{name}={getattr(self, name)}: give 0 or more.")
