"""From a stream and a config to what a training walks over."""

from __future__ import annotations

import numpy as np
import torch

from contig.data.clock import LATEST
from contig.data.events import EventStream
from contig.data.splits import Split
from contig.errors import RunError
from contig.models import model_class
from contig.runs.config import RunConfig
from contig.streaming.prepared import PreparedStream
from contig.tasks.results import only_known_nodes


def prepare(stream: EventStream, config: RunConfig, device: torch.device) -> PreparedStream:
    """Split and index a stream; refuse one that leaves nothing to learn from or to measure."""
    _check_times(stream)
    split = config.train.split_stream(stream)
    _check_parts(stream, split)
    if not split.final:
        _check_validation(stream, split, config)
    return PreparedStream.of(stream, split, device, on_host=config.train.graph_on_host(device))


def _check_times(stream: EventStream) -> None:
    """Refuse integer times whose differences, or the next time after the last, may overflow."""
    if stream.t.dtype.kind == "i" and len(stream) and not -LATEST < stream.t[0] <= stream.t[-1] < LATEST:
        raise RunError(
            f"{stream.origin}: the times run from {stream.t[0]:,} to {stream.t[-1]:,}; differences between "
            f"times beyond {LATEST:,} may overflow. Subtract an offset, or use a coarser unit."
        )


def _check_parts(stream: EventStream, split: Split) -> None:
    parts = {"training": split.train, "validation": split.val, "test": split.test}
    for name, part in parts.items():
        if len(part) or (split.final and name != "training"):
            continue
        raise RunError(
            f"{stream.origin}: the {name} part is empty (split: {split.description}); "
            f"{_cure(stream, name, split)}."
        )


def _cure(stream: EventStream, part: str, split: Split) -> str:
    """Say why a part is empty and what to do."""
    events, times = f"{len(stream):,} events", len(np.unique(stream.t))
    if part == "training" and split.holdout == "tgn":
        return f"provide more than {events}, or use holdout=none to keep every early event for training"
    if times == len(stream):
        return f"provide more than {events}, or another split"
    if times == 1 < len(stream):
        return f"all {events} have the same time, and parts are split by time; check the column of times"
    return (
        f"the {events} have only {times:,} different times, and events at the same time stay together; "
        "provide more times, or finer ones, or another split"
    )


def _check_validation(stream: EventStream, split: Split, config: RunConfig) -> None:
    """Refuse a validation part on which the metric that chooses the best epoch is undefined."""
    if config.train.monitor == "inductive-ap":
        _check_new_nodes(stream, split, config)
    if not only_known_nodes(split.holdout, model_class(config.model).inductive):
        return
    known = ~split.new_nodes
    if np.any(known[stream.src[split.val]] & known[stream.dst[split.val]]):
        return
    cure = "use holdout=none, which counts every validation event"
    if split.holdout != "paper":
        cure = f"{config.model} cannot score new nodes, so use another model or an earlier validation part"
    raise RunError(
        f"{stream.origin}: no validation event is between two nodes seen in training, so validation AP is "
        f"undefined; {cure}."
    )


def _check_new_nodes(stream: EventStream, split: Split, config: RunConfig) -> None:
    """Refuse a validation part on which inductive AP is undefined."""
    if not model_class(config.model).inductive:
        raise RunError(f"monitor=inductive-ap: {config.model} cannot score new nodes; use monitor=ap.")
    new = split.new_nodes
    if not np.any(new[stream.src[split.val]] | new[stream.dst[split.val]]):
        raise RunError(
            f"{stream.origin}: no validation event has a new node, so monitor=inductive-ap is undefined; "
            "use monitor=ap, or holdout=tgn, which hides nodes from training."
        )
