"""The HTTP service under load, over loopback: durable events, and latencies while events arrive."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from contig.benchmarks.bench import Bench
from contig.benchmarks.environment import MissingPackage
from contig.benchmarks.measurement import Measurement
from contig.data.events import EventStream
from contig.serve.packages import missing_packages
from contig.training.fit import fit

if TYPE_CHECKING:
    from contig.serve.sending import Batch

MODEL = "contig-pair"
BATCH = 100  # events per request
RATE = 1000  # events per second that arrive while latencies are measured
MOST_TRAINED = 60_000  # events: quality does not matter here
LONGEST = 60.0  # seconds of a measurement, at most


def measure_serve(bench: Bench) -> Iterator[Measurement]:
    """Send a stream to a service in another process, and query it meanwhile, over one connection each."""
    if (missing := missing_packages()) is not None:
        raise MissingPackage(missing)
    from contig.serve.sending import batches

    stream, sent = bench.stream, bench.settings.served
    trained = min(max(len(stream) - 2 * sent, len(stream) // 3), MOST_TRAINED)
    with tempfile.TemporaryDirectory(prefix="contig-bench-") as folder:
        run = _train(stream[:trained], bench, Path(folder) / "run")
        with _service(run) as url:
            waiting = batches(stream[trained:], BATCH)
            yield _throughput(url, waiting, sent)
            _introduce_destinations(url, stream, trained)
            yield from _latencies(url, stream, stream.src[:trained], waiting, sent)


def _train(stream: EventStream, bench: Bench, folder: Path) -> Path:
    s = bench.settings
    options: dict[str, Any] = {
        "dim": s.dim,
        "time_dim": s.dim,
        "neighbors": s.neighbors,
        "batch_size": s.batch_size,
    }
    fit(stream, MODEL, out=folder, device="cpu", show=False, epochs=1, final=True, **options)
    return folder


@contextmanager
def _service(run: Path) -> Iterator[str]:
    """Run ``contig serve`` in a process of its own; yield its address."""
    command = [sys.executable, "-m", "contig", "serve", str(run), "--port", "0", "--device", "cpu"]
    with subprocess.Popen([*command, "--log-level", "error"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().rpartition(" ")[2].strip()
        finally:
            process.terminate()


def _throughput(url: str, waiting: Iterator[Batch], events: int) -> Measurement:
    """Send batches one after the other; each is on disk before the next is sent."""
    from contig.serve.client import Client

    seconds: list[float] = []
    with Client(url) as client:
        client.observe(next(waiting).events)  # the first one loads what the service needs
        begun = time.perf_counter()
        while len(seconds) < max(1, events // BATCH) and time.perf_counter() - begun < LONGEST:
            batch = next(waiting)
            before = time.perf_counter()
            client.observe(batch.events, batch.id)
            seconds.append((time.perf_counter() - before) / BATCH)
    rate = 1 / np.mean(seconds)
    what = f"a durable event, in batches of {BATCH}"
    return Measurement.without_peer(
        "serve", what, seconds, note=f"{rate:,.0f} events/s; median and range of batches"
    )


def _introduce_destinations(url: str, stream: EventStream, trained: int) -> None:
    """Send an event of each destination that training has not seen, so that queries rank all of them."""
    from contig.serve.client import Client

    labels = stream.ids.labels
    new = labels[np.setdiff1d(stream.dst, stream.dst[:trained])].tolist()
    with Client(url) as client:
        t = client.status()["last_time"]
        if new:
            client.observe([{"src": labels[stream.src[0]].item(), "dst": dst, "t": t} for dst in new])


def _latencies(
    url: str, stream: EventStream, sources: NDArray[np.int64], waiting: Iterator[Batch], events: int
) -> Iterator[Measurement]:
    """Query the service while events arrive at a steady rate."""
    from contig.serve.client import Client

    rng = np.random.default_rng(0)
    labels = stream.ids.labels
    nodes = labels[rng.choice(sources, 1000)].tolist()
    duration = min(LONGEST, events / 2 / RATE)
    with Client(url) as client:
        queries: dict[str, Callable[[int], object]] = {
            "an embedding": lambda i: client.embed(nodes[i % 1000], side="src"),
            f"the best 10 of {len(stream.destinations):,}": lambda i: client.recommend(nodes[i % 1000]),
        }
        for what, query in queries.items():
            query(0)
            with _arriving(url, waiting):
                seconds = _time_calls(query, duration)
            for quantile in (50, 99):
                title = f"{what}, p{quantile}, while {RATE:,} events/s arrive"
                note = f"{len(seconds):,} requests"
                yield Measurement.without_peer(
                    "serve", title, [float(np.percentile(seconds, quantile))], note=note
                )


@contextmanager
def _arriving(url: str, waiting: Iterator[Batch]) -> Iterator[None]:
    """Send batches at a steady rate from a thread while the block runs."""
    from contig.serve.client import Client

    stop = threading.Event()

    def send() -> None:
        with Client(url) as client:
            due = time.monotonic()
            for batch in waiting:
                client.observe(batch.events, batch.id)
                due += BATCH / RATE
                if stop.wait(max(0.0, due - time.monotonic())):
                    return

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        stop.set()
        sender.join()


def _time_calls(query: Callable[[int], object], duration: float) -> Sequence[float]:
    found: list[float] = []
    end = time.perf_counter() + duration
    while (begun := time.perf_counter()) < end or len(found) < 10:
        query(len(found))
        found.append(time.perf_counter() - begun)
    return found
