"""Options of a training, whatever the model."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Literal

from contig.data.cuts import DEFAULT_SPLIT
from contig.data.splits import Holdout, Split, chronological_split
from contig.options import option

if TYPE_CHECKING:
    import torch

    from contig.data.events import EventStream

# These determine the result of a heuristic too, which has nothing to train.
PROTOCOL_OPTIONS = ("split", "final", "holdout", "split_seed", "batch_size")

Monitor = Literal["ap", "auc", "inductive-ap", "historical-ap", "mrr"]
MONITORS: dict[Monitor, str] = {
    "ap": "AP",
    "auc": "AUC",
    "inductive-ap": "inductive AP",
    "historical-ap": "AP among known pairs",
    "mrr": "MRR",
}


@dataclass(frozen=True)
class TrainOptions:
    """Options of one training."""

    epochs: int = option(
        50, "maximum passes over the training events; early stopping usually comes first", low=1
    )
    batch_size: int = option(200, "events scored before they are observed; part of every result", low=1)
    lr: float = option(
        3e-4, "learning rate of Adam; the paper's 1e-4 reaches the same more slowly", above=0, below=inf
    )
    weight_decay: float = option(0.0, "L2 penalty of Adam", low=0, below=inf)
    clip: float = option(1.0, "maximum norm of a gradient; single bursts otherwise upset the states", above=0)
    negatives: int = option(1, "destinations sampled against each true one", low=1)
    historical: int = option(
        0, "further negatives for each event: destinations that its source met in training", low=0
    )
    met_pairs: float = option(
        0.0,
        "weight of a loss that tells true pairs from any that met before: with 0.1 scores say better which "
        "known pairs are active now, and a little worse which of all pairs are true",
        low=0,
        below=inf,
    )
    loss: Literal["logistic", "softmax"] = option(
        "logistic", "compare each candidate with a threshold (logistic), or a true one with its negatives"
    )
    averaging: float = option(
        0.0,
        "decay per step of the average of weights that is evaluated and kept; 0 keeps the last",
        low=0,
        below=1,
    )
    patience: int = option(5, "epochs without a better validation metric before training stops", low=1)
    monitor: Monitor = option(
        "ap",
        "validation metric that chooses the best epoch: ap, auc, inductive-ap (of events with a new node), "
        "historical-ap (with historical negatives; slower) or mrr (among 20 sampled destinations; slower)",
    )
    seed: int = option(0, "seed of weights, dropout and training negatives", low=0, below=2**63)
    split: str = option(
        DEFAULT_SPLIT,
        "shares of training and validation, or two times such as 2024-05-01,2024-06-01 at which validation "
        "and test begin",
    )
    final: bool = option(
        False, "learn from every event, without validation and test, for as many epochs as given"
    )
    holdout: Literal["auto", "tgn", "paper", "none"] = option(
        "auto",
        "tgn hides a tenth of the nodes from training; paper and none hide nothing, and paper counts only "
        "test events between known nodes as transductive; auto is tgn for datasets, none for your own data",
    )
    split_seed: int = option(
        2020, "seed of the held-out nodes; separate, so that seeds share their events", low=0, below=2**63
    )
    compile: Literal["auto", "on", "off"] = option(
        "auto", "fuse the kernels of a step on a GPU; auto does so where it saves more time than it takes"
    )
    graph_in: Literal["device", "host", "disk"] = option(
        "device",
        "where node states and history are stored; host is for graphs larger than GPU memory; disk, on a "
        "CPU, is for node states larger than memory, in files in TMPDIR",
    )
    checkpoint_seconds: float = option(60.0, "time between checkpoints within an epoch, in seconds", low=0)

    def holdout_of(self, stream: EventStream) -> Holdout:
        """Return the holdout for a stream: the one that was chosen, or the default for such a stream."""
        if self.holdout != "auto":
            return self.holdout
        return "tgn" if stream.benchmark and not self.final else "none"

    def split_stream(self, stream: EventStream) -> Split:
        """Split a stream as these options say."""
        return chronological_split(
            stream, self.split, final=self.final, holdout=self.holdout_of(stream), seed=self.split_seed
        )

    def graph_on_host(self, device: torch.device) -> bool:
        """Return whether the graph is stored in host memory while a GPU works on it."""
        return self.graph_in == "host" and device.type == "cuda"

    def state_on_disk(self, device: torch.device) -> bool:
        """Return whether node states are stored in temporary files while a CPU works on them."""
        return self.graph_in == "disk" and device.type == "cpu"
