"""Bulk queries of a trained run next to the same queries one at a time, in seconds of CPU time.

CPU time is that of all threads of this process. Other work on the machine changes it far less than the time
on the clock, and the ratio hardly at all.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from contig.benchmarks.bench import Bench
from contig.benchmarks.measurement import Measurement
from contig.data.events import EventStream
from contig.runs.run import Run
from contig.training.fit import fit

MODEL = "contig-pair"
PAIRS = 100_000  # to score, or fewer if the settings ask for fewer queries
NEW = 0.05  # share of the events that the run learns of by an update
SINGLE = 20  # queries that are timed one at a time
PEER = "one at a time"


class Cost(NamedTuple):
    """Seconds of CPU time and on the clock."""

    cpu: float
    wall: float


def measure_bulk(bench: Bench) -> Iterator[Measurement]:
    """Train for one epoch, then update, score, recommend and embed in bulk and one at a time."""
    stream = bench.stream
    known = int(len(stream) * (1 - NEW))
    with tempfile.TemporaryDirectory(prefix="contig-bench-") as folder:
        run = _train(stream[:known], bench, Path(folder) / "run")
        yield _update(run, stream, known)
        yield _score(run, min(PAIRS, bench.settings.queries))
        yield _recommend(run)
        yield from _embed(run)


def _train(stream: EventStream, bench: Bench, folder: Path) -> Run:
    s = bench.settings
    options: dict[str, Any] = {
        **{"dim": s.dim, "time_dim": s.dim, "neighbors": s.neighbors, "batch_size": s.batch_size},
        **{"epochs": 1, "final": True, "device": str(bench.device), "show": False},
    }
    return fit(stream, MODEL, out=folder, **options)


def _cost(work: Callable[..., object], *arguments: Any, **options: Any) -> Cost:
    begun = time.process_time(), time.perf_counter()
    work(*arguments, **options)
    return Cost(time.process_time() - begun[0], time.perf_counter() - begun[1])


def _compared(what: str, bulk: Cost, single: Sequence[Cost], count: int) -> Measurement:
    """Return a row: the bulk call, and ``count`` single ones at the mean cost of those that were timed."""
    each = float(np.mean([one.cpu for one in single]))
    note = f"{bulk.wall:,.1f} s on the clock; {len(single)} single calls were timed"
    return Measurement.compare("bulk", what, [bulk.cpu], PEER, [each * count], note=note)


def _update(run: Run, stream: EventStream, known: int) -> Measurement:
    """Observe and save new events; the first ones one at a time."""
    singles = min(SINGLE, (len(stream) - known) // 2)
    ends = [*range(known, known + singles + 1), len(stream)]
    costs = [_cost(run.observe, stream[start:stop]) for start, stop in pairwise(ends)]
    count = len(stream) - known - singles
    return _compared(f"update with {count:,} events, saved", costs[-1], costs[1:singles], count)


def _score(run: Run, count: int) -> Measurement:
    """Score pairs at times from the whole stream, and after it."""
    stream, rng = run.stream, np.random.default_rng(0)
    labels = stream.ids.labels
    src, dst = (labels[rng.choice(column, count)] for column in (stream.src, stream.dst))
    t = rng.choice(np.r_[stream.t, stream.t[-1] + stream.t[-1000:] - stream.t[-1000]], count)
    bulk = _cost(run.score, src, dst, t)
    single = [_cost(run.score, src[i : i + 1], dst[i : i + 1], t[i : i + 1]) for i in range(SINGLE)]
    return _compared(f"score {count:,} pairs at as many times", bulk, single, count)


def _recommend(run: Run) -> Measurement:
    """List ten destinations for every source, without those it has met."""
    sources = run.stream.ids.labels[np.unique(run.stream.src)].tolist()
    some = np.random.default_rng(0).permutation(len(sources))[:SINGLE]
    run.recommend(sources[0], exclude_seen=True)
    single = [_cost(run.recommend, sources[i], exclude_seen=True) for i in some.tolist()]
    bulk = _cost(run.recommend, sources, exclude_seen=True)
    among = len(run.stream.destinations)
    what = f"the best 10 of {among:,} for all {len(sources):,} sources, without those it has met"
    return _compared(what, bulk, single, len(sources))


def _embed(run: Run) -> Iterator[Measurement]:
    """Embed every node at a past time; then at an earlier one, from the snapshots kept on the way."""
    stream = run.stream
    labels = stream.ids.labels
    opened = Run.open(run.path, run.state.device)  # it has no snapshots yet
    late, early = (stream.t[int(len(stream) * share)].item() for share in (0.8, 0.3))
    walked = _cost(opened.embed, at=late)
    note = f"{walked.wall:,.1f} s on the clock"
    yield Measurement.without_peer(
        "bulk", "embed all nodes at a past time, the first", [walked.cpu], note=note
    )
    bulk = _cost(opened.embed, at=early)
    some = np.random.default_rng(0).choice(labels[stream.src], SINGLE).tolist()
    single = [_cost(opened.embed, [node], early, "src") for node in some]
    yield _compared(f"embed all {len(labels):,} nodes at an earlier time", bulk, single, len(labels))
