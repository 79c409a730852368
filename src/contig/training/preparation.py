"""From a stream and a config to what a training walks over."""

from __future__ import annotations

import numpy as np
import torch

from contig.data.events import EventStream
from contig.data.splits import Split, chronological_split
from contig.errors import RunError
from contig.models import model_class
from contig.runs.config import RunConfig
from contig.streaming.prepared import PreparedStream


def prepare(stream: EventStream, config: RunConfig, device: torch.device) -> PreparedStream:
    """Split and index a stream; refuse one that leaves nothing to learn from or to measure."""
    split = chronological_split(stream, holdout=config.train.holdout, seed=config.train.split_seed)
    _check_parts(stream, split)
    _check_validation(stream, split, config)
    return PreparedStream.of(stream, split, device, on_host=config.train.graph_on_host(device))


def _check_parts(stream: EventStream, split: Split) -> None:
    for name, part in (("training", split.train), ("validation", split.val), ("test", split.test)):
        if len(part):
            continue
        held_out = name == "training" and split.holdout == "tgn"
        cure = ", or holdout=paper to keep every early event for training" if held_out else ""
        raise RunError(
            f"{stream.origin}: the {name} part is empty ({len(stream):,} events in all); "
            f"provide a longer stream{cure}."
        )


def _check_validation(stream: EventStream, split: Split, config: RunConfig) -> None:
    """Refuse a validation part on which the model's transductive AP is undefined."""
    if split.holdout == "tgn" and model_class(config.model).inductive:
        return
    known = ~split.new_nodes
    if np.any(known[stream.src[split.val]] & known[stream.dst[split.val]]):
        return
    cure = "use holdout=tgn, which counts every validation event"
    if split.holdout == "tgn":
        cure = f"{config.model} cannot score new nodes, so use holdout=paper or another model"
    raise RunError(
        f"{stream.origin}: no validation event is between two nodes seen in training, so validation AP is "
        f"undefined; {cure}."
    )
