"""An hour of events in a live engine: whether memory or the cost of an event grows beyond the data."""

from __future__ import annotations

import mmap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from contig.benchmarks.bench import Bench
from contig.benchmarks.live import ARRIVING, MODEL, Client, array_bytes, served
from contig.benchmarks.measurement import Measurement
from contig.live import Engine

BATCH = 500  # events per call
PARTS = 12  # of the hour; a snapshot is taken after each
MB = 2**20


class Sample(NamedTuple):
    """The memory of the process and of the data it holds, in bytes, and the time since the last sample."""

    resident: int
    data: int
    seconds: float


def measure_live_hour(bench: Bench) -> Iterator[Measurement]:
    """Send the events of an hour as fast as they are taken in, with a snapshot every five minutes of it."""
    model = bench.session(MODEL).model.eval()
    calls = max(1, bench.settings.hour // PARTS // BATCH)
    with served(model, bench.stream, bench.settings.batch_size, observed=False) as engine:
        client = Client(engine, bench.stream)
        client.send(BATCH)
        engine._snapshots.take()
        samples = [_sample(engine, 0.0), *(_part(client, calls) for _ in range(PARTS))]
    yield _memory(samples, calls * BATCH)
    yield _cost(samples, calls * BATCH)


def _part(client: Client, calls: int) -> Sample:
    begun = time.perf_counter()
    for _ in range(calls):
        client.send(BATCH)
    seconds = time.perf_counter() - begun
    client.engine._snapshots.take()
    return _sample(client.engine, seconds)


def _sample(engine: Engine, seconds: float) -> Sample:
    return Sample(_resident(), array_bytes(engine._graph), seconds)


def _memory(samples: list[Sample], events: int) -> Measurement:
    """Compare the growth of the process with that of its data: history, evidence and states."""
    first, last, sent = samples[0], samples[-1], events * PARTS
    beyond = [(one.resident - first.resident) - (one.data - first.data) for one in samples[1:]]
    note = (
        f"data with its spare room: {(last.data - first.data) / sent:,.0f}; beyond it "
        f"{min(beyond) / MB:,.0f} to {max(beyond) / MB:,.0f} MB, in the end {beyond[-1] / MB:,.0f} MB"
    )
    what = f"memory of an event, over {sent:,} events, {MODEL}"
    figures = [(last.resident - first.resident) / sent]
    return Measurement.without_peer("live-hour", what, figures, unit="bytes/event", note=note)


def _cost(samples: list[Sample], events: int) -> Measurement:
    figures = [sample.seconds / events for sample in samples[1:]]
    took, minutes = sum(sample.seconds for sample in samples), events * PARTS / ARRIVING / 60
    note = (
        f"{1e6 * figures[0]:.0f} µs in the first twelfth, {1e6 * figures[-1]:.0f} µs in the last; "
        f"{took:,.0f} s for {minutes:,.0f} min of events"
    )
    return Measurement.without_peer(
        "live-hour", f"take in an event durably, {BATCH} per call, {MODEL}", figures, note=note
    )


def _resident() -> int:
    """Return the memory of this process in bytes; 0 where the system does not report it."""
    path = Path("/proc/self/statm")
    return int(path.read_text().split()[1]) * mmap.PAGESIZE if path.exists() else 0
