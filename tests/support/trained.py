"""Tiny trainings, and how to compare what they leave behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from contig.data.events import EventStream
from contig.data.synthetic import synthetic

TINY: dict[str, Any] = {"dim": 8, "time_dim": 6, "neighbors": 3, "batch_size": 30, "lr": 0.01}


def tiny_stream(**options: Any) -> EventStream:
    """400 events between 23 sources and 9 destinations, many at equal times."""
    drawn = synthetic(400, sources=23, destinations=9, seed=3, **options)
    # Coarse times, so that ties lie across batches and a state must not know its own moment.
    t = drawn.t // 20_000
    features = drawn.edge_features
    return EventStream.from_arrays(
        drawn.src, drawn.dst, t, edge_features=features, bipartite=True, origin="tiny"
    )


def named_stream(events: int = 260) -> EventStream:
    """A bipartite stream with text ids, some of them on both sides, and real-valued times."""
    rng = np.random.default_rng(11)
    src = [f"n{i}" for i in rng.integers(0, 14, events)]
    dst = [f"n{i}" for i in rng.integers(10, 17, events)]
    t = np.sort(rng.uniform(0, 90.0, events))
    return EventStream.from_arrays(src, dst, t, bipartite=True, origin="named")


COSTS = ("train_seconds", "events_per_second", "peak_memory")


def numbers(content: Any) -> Any:
    """Everything but what it cost."""
    if isinstance(content, dict):
        return {key: numbers(value) for key, value in content.items() if key not in COSTS}
    return [numbers(value) for value in content] if isinstance(content, list) else content


def saved(folder: Path, name: str) -> Any:
    return torch.load(folder / name, weights_only=True)


def same(a: Any, b: Any) -> bool:
    """Equal bit for bit, through all levels."""
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b) or (a != a and b != b)


def same_run(one: Path, other: Path) -> bool:
    """Whether two run folders hold the same result, the checkpoint included."""
    from contig.runs.folder import RunFolder

    metrics = [numbers(RunFolder(path).metrics().as_dict()) for path in (one, other)]
    files = ("best.pt", "serving.pt", "checkpoint.pt")
    return metrics[0] == metrics[1] and all(
        same(numbers(saved(one, f)), numbers(saved(other, f))) for f in files
    )
