"""What can be chosen about a training, whatever the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from contig.data.splits import Holdout
from contig.options import option

if TYPE_CHECKING:
    import torch

# What decides the numbers of a rule too, though it has nothing to train.
MEASURING = ("holdout", "split_seed", "batch_size")


@dataclass(frozen=True)
class TrainOptions:
    """One training's settings."""

    epochs: int = option(
        50, "passes over the training events at most; early stopping usually ends before", low=1
    )
    batch_size: int = option(200, "events scored before they are observed; part of every result", low=1)
    lr: float = option(3e-4, "Adam's step size; the paper's 1e-4 learns the same more slowly", above=0)
    weight_decay: float = option(0.0, "L2 penalty of Adam", low=0)
    clip: float = option(1.0, "largest norm of a gradient; single bursts otherwise upset the states", above=0)
    patience: int = option(5, "epochs without a better validation AP before stopping", low=1)
    seed: int = option(0, "of weights, dropout and training negatives")
    holdout: Holdout = option(
        "tgn", "which nodes are new: tgn hides a tenth of the nodes from training, paper none"
    )
    split_seed: int = option(2020, "of the hidden nodes; apart from seed, so that seeds share their events")
    compile: Literal["auto", "on", "off"] = option(
        "auto", "fuse the step's kernels on a GPU; auto does where it saves more time than it takes"
    )
    graph_in: Literal["device", "host"] = option(
        "device", "where node states and history lie; host is for graphs larger than the GPU's memory"
    )
    checkpoint_seconds: float = option(60.0, "longest training time an interrupted run can lose", low=0)

    def graph_on_host(self, device: torch.device) -> bool:
        """Whether the graph must be kept off the device; on a CPU it is at home anyway."""
        return self.graph_in == "host" and device.type == "cuda"
