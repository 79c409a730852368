"""How far a training step is from the limit that memory bandwidth sets."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import mean, median
from typing import Any

import numpy as np
import torch

from contig.benchmarks.bench import Bench
from contig.benchmarks.measurement import Measurement
from contig.benchmarks.steps import TrainingSteps
from contig.benchmarks.timing import repeat
from contig.streaming.packing import count_each_batch

FLOAT, INT = 4, 8  # bytes of a float32; of an id or a time


def least_bytes(
    *, distinct: float, written: float, queries: int, neighbors: int, dim: int, weights: int
) -> float:
    """Return the bytes that a training step must move if everything else stays on the chip.

    It reads the states and latest events of the ``distinct`` nodes in its queries, and writes those of
    the ``written`` nodes in its events. It reads node and time of every query's neighbors. It reads and
    writes each weight, its gradient and both moments of Adam. Activations do not count.
    """
    states = (distinct + written) * (dim * FLOAT + INT)
    index = queries * neighbors * 2 * INT
    return states + index + weights * 8 * FLOAT


def copy_bandwidth(size: int, repeats: int, device: torch.device) -> float:
    """Return the bytes per second, read plus written, of a copy of ``size`` bytes on the device."""
    source = torch.zeros(size // FLOAT, device=device)
    target = torch.empty_like(source)
    return 2 * size / median(repeat(lambda: target.copy_(source), repeats, device))


def measure_roofline(bench: Bench) -> Iterator[Measurement]:
    """Compare a training step with the time that its least memory traffic takes."""
    s = bench.settings
    speed = copy_bandwidth(s.copied * (16 if bench.device.type == "cuda" else 1), s.repeats, bench.device)
    for model in ("contig", "tgn"):
        least = _least_bytes_of(bench, model)
        (ours,) = bench.time_steps(TrainingSteps(bench.session(model)))
        limit = [least / speed] * len(ours)
        peer = f"least traffic, {least / 1e6:.1f} MB, at the {speed / 1e9:,.0f} GB/s of a copy"
        yield Measurement.compare("roofline", f"training step, {model}", ours, peer, limit)


def _least_bytes_of(bench: Bench, model: str) -> float:
    """Return the mean of ``least_bytes`` over the timed steps."""
    s, history, session = bench.settings, bench.data.training, bench.session(model)
    timed = bench.data.split.train[s.first * s.batch_size : s.last * s.batch_size]
    written = [
        len(np.unique([bench.stream.src[batch], bench.stream.dst[batch]]))
        for batch in timed.reshape(-1, s.batch_size)
    ]
    events = torch.from_numpy(timed).to(bench.device)
    trained: Any = session.model
    negative = session.negatives.draw(events, history.events["src"][events])
    counts = count_each_batch(trained, session.state, history, events, negative, s.batch_size)
    return least_bytes(
        distinct=float(counts.read.mean()),
        written=mean(written),
        queries=3 * s.batch_size,
        neighbors=s.neighbors,
        dim=s.dim,
        weights=sum(p.numel() for p in session.model.parameters()),
    )
