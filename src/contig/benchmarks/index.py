"""Building the index of a stream, and growing one."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

import numpy as np
import torch
from torch import Tensor

from contig.benchmarks.bench import Bench
from contig.benchmarks.lookup import stream_columns
from contig.benchmarks.measurement import Measurement
from contig.benchmarks.timing import alternate, repeat
from contig.data.synthetic import synthetic
from contig.history import History

APPENDED = (1, 200, 10_000)  # events per call
CALLS = 500  # the most in a timed round
CPU = torch.device("cpu")


def measure_index(bench: Bench) -> Iterator[Measurement]:
    """Compare indexing a large stream on the CPU with sorting one of its columns; report the size."""
    events = bench.settings.events
    stream = synthetic(events=events)
    own, theirs = alternate(
        [lambda: History.from_stream(stream), lambda: np.argsort(stream.src, kind="stable")],
        bench.settings.repeats,
        CPU,
    )
    yield Measurement.compare(
        "index",
        f"build the index of {events:,} events",
        own,
        "one stable numpy argsort of as many int64",
        theirs,
        note=f"{events / median(own):,.0f} events/s; target: a ratio of at least 0.25",
    )
    size = History.from_stream(stream).nbytes() / events
    yield Measurement.without_peer(
        "index", "size of the index", [size], unit="bytes/event", note="target: at most 40"
    )


def measure_append(bench: Bench) -> Iterator[Measurement]:
    """Time growing a history on the CPU from nothing, by calls of several sizes."""
    columns = stream_columns(bench.stream)
    for size in APPENDED:
        count = min(len(bench.stream), CALLS * size)
        parts = [[x[i : i + size] for x in columns] for i in range(0, count, size)]

        def work(parts: list[list[Tensor]] = parts) -> None:
            history = History.empty(time_dtype=columns[2].dtype)
            for part in parts:
                history.append(*part)

        own = repeat(work, bench.settings.repeats, CPU)
        what = f"append {count:,} events, {size:,} per call"
        yield Measurement.without_peer("append", what, own, note=f"{count / median(own):,.0f} events/s")
