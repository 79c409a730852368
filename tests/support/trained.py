"""Tiny trainings, and how to compare the files they leave behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from contig import files
from contig.data.events import EventStream
from contig.data.synthetic import synthetic
from contig.files import sha256
from contig.runs.checksums import FILE, Checksums
from contig.runs.folder import RunFolder
from contig.runs.run import Run
from contig.training import loop
from contig.training.fit import fit

TINY: dict[str, Any] = {"dim": 8, "time_dim": 6, "neighbors": 3, "batch_size": 30, "lr": 0.01}


def tiny_stream(**options: Any) -> EventStream:
    """400 events between 23 sources and 9 destinations, many at equal times."""
    drawn = synthetic(400, sources=23, destinations=9, seed=3, **options)
    # Coarse times put ties across the ends of batches, where a state must not know its own time.
    t = drawn.t // 20_000
    features = drawn.edge_features
    stream = EventStream.from_arrays(
        drawn.src, drawn.dst, t, edge_features=features, bipartite=True, origin="tiny"
    )
    return replace(stream, benchmark=True)  # trained by the protocol of the datasets


def text_id_stream(events: int = 260) -> EventStream:
    """A bipartite stream with text ids, some of them on both sides, and real-valued times."""
    rng = np.random.default_rng(11)
    src = [f"n{i}" for i in rng.integers(0, 14, events)]
    dst = [f"n{i}" for i in rng.integers(10, 17, events)]
    t = np.sort(rng.uniform(0, 90.0, events))
    return EventStream.from_arrays(src, dst, t, bipartite=True, origin="text ids")


@contextmanager
def fast_training() -> Iterator[None]:
    """Train on one thread, without learning curves and without waiting for the disk, which all take long."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "draw_curve", lambda session, folder: None)
        patch.setattr(files, "sync", lambda path: None)
        yield
    torch.set_num_threads(threads)


def train_tiny(stream: EventStream, out: Path, model: str = "contig", **settings: Any) -> Run:
    """Train one epoch of ``TINY``, or whatever ``settings`` change about it."""
    return fit(stream, model, out=out, show=False, **{"epochs": 1, **TINY, **settings})


def renew_checksums(folder: Path) -> None:
    """Make the checksums of a run those of its files, as if it had been written like this."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name not in (FILE, "curve.png")]
    (folder / FILE).unlink()
    Checksums(folder).record({str(path.relative_to(folder)): sha256(path) for path in files})


# -- comparing runs -----------------------------------------------------------------------------------------

COSTS = ("train_seconds", "events_per_second", "peak_memory")


def without_costs(content: Any) -> Any:
    """The content less the times and the memory it took."""
    if isinstance(content, dict):
        return {key: without_costs(value) for key, value in content.items() if key not in COSTS}
    return [without_costs(value) for value in content] if isinstance(content, list) else content


def load_saved(folder: Path, name: str) -> Any:
    """The content of a run's ``.pt`` file."""
    return torch.load(folder / name, weights_only=True)


def bit_identical(a: Any, b: Any) -> bool:
    """Whether two nested values are equal to the last bit; NaN equals NaN."""
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(bit_identical(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(bit_identical, a, b))
    return bool(a == b) or (a != a and b != b)


def identical_runs(one: Path, other: Path) -> bool:
    """Whether two run folders hold the same result to the last bit, the checkpoint included."""
    metrics = [without_costs(RunFolder(path).metrics().as_dict()) for path in (one, other)]
    files = ("best.pt", "serving.pt", "checkpoint.pt")
    return metrics[0] == metrics[1] and all(
        bit_identical(without_costs(load_saved(one, f)), without_costs(load_saved(other, f))) for f in files
    )
