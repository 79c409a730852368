"""What a live engine costs: taking in events durably, and answering while they arrive."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np
from torch import Tensor

from contig.benchmarks.bench import Bench, run_config
from contig.benchmarks.measurement import Measurement
from contig.benchmarks.random_reads import random_read
from contig.data.events import EventStream
from contig.data.ids import NodeIds
from contig.history import History
from contig.live import Engine, Events, Settings
from contig.live.events import StreamTraits
from contig.live.graph import LiveGraph
from contig.live.ids import NodeIndex
from contig.live.log import EventLog
from contig.live.recovery import Restored
from contig.models import Model
from contig.runs.config import build_model
from contig.streaming.batches import warm_up

MODEL = "contig-pair"
BATCH = 100  # events per call
ARRIVING = 1000  # events per second while queries are timed
READ_SECONDS = 10.0
NODES = (10_000, 100_000, 1_000_000)
NARROW = 32  # width of states where there are many nodes: what is compared is the time
WARM_UP = 5  # calls


def measure_live(bench: Bench) -> Iterator[Measurement]:
    """Time durable events, queries under load, and events among more and more nodes."""
    model = bench.session(MODEL).model.eval()
    with served(model, bench.stream, bench.settings.batch_size, observed=True) as engine:
        client = Client(engine, bench.stream)
        yield _durable(bench, client)
        yield from _queries(bench, client)
    yield from _many_nodes(bench)


class Client:
    """Sends the events of a stream again, after its end."""

    def __init__(self, engine: Engine, stream: EventStream) -> None:
        self.engine, self.stream = engine, stream
        self._last = engine.status().last_time
        self._numbers = count()

    def send(self, events: int = BATCH) -> None:
        """Send one batch and wait for its receipt."""
        rows = (next(self._numbers) * events + np.arange(events)) % len(self.stream)
        labels = self.stream.ids.labels
        t = self._last + np.arange(1, events + 1)
        self._last = t[-1]
        self.engine.observe(Events(labels[self.stream.src[rows]], labels[self.stream.dst[rows]], t))

    def send_calls(self, calls: int) -> None:
        """Send several batches."""
        for _ in range(calls):
            self.send()

    @contextmanager
    def arriving(self) -> Iterator[None]:
        """Send batches at a steady rate in another thread."""
        done = threading.Event()

        def work() -> None:
            due = time.perf_counter()
            while not done.is_set():
                self.send()
                due += BATCH / ARRIVING
                done.wait(max(0.0, due - time.perf_counter()))

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


@contextmanager
def served(model: Model, stream: EventStream, batch_size: int, *, observed: bool) -> Iterator[Engine]:
    """Serve a model after a stream from a temporary folder, without snapshots.

    Unless the stream is ``observed``, the states are blank, which changes no time.
    """
    with tempfile.TemporaryDirectory(prefix="contig-live-") as name, ExitStack() as held:
        log = EventLog(Path(name))
        held.callback(log.close)
        log.open()
        graph = LiveGraph(model, History.from_stream(stream, model.device), batch_size, "event")
        warm_up(model, graph.history)
        if observed:
            graph.catch_up()
        else:
            graph.complete = graph.batches.complete
            graph.state.position = graph.batches.end(graph.complete)
        traits = StreamTraits(stream.ids.labels.dtype.kind == "i", stream.time_span, 0)
        found = Restored(graph, NodeIndex(stream.ids), len(stream), stream.num_nodes, traits, None, 0)
        engine = Engine(Path(name), Settings(), held.pop_all(), log, found)
        try:
            yield engine
        finally:
            engine.close(snapshot=False)


def _durable(bench: Bench, client: Client) -> Measurement:
    calls = max(1, 20 * bench.settings.repeats)
    client.send_calls(WARM_UP)
    figures = [_seconds(client.send) / BATCH for _ in range(calls)]
    note = f"{1 / np.mean(figures):,.0f} events/s on average"
    what = f"take in an event durably, {BATCH} per call, {MODEL}"
    return Measurement.without_peer("live", what, figures, note=note)


def array_bytes(graph: LiveGraph) -> int:
    """Return the size of everything that grows with the events."""
    history = graph.history
    tensors = [*history.events.columns.values(), *graph.state.rows.values()]
    evidence = sum(one.nbytes() for one in history._evidence.values())
    return history.nbytes() + evidence + graph._recent.nbytes + sum(map(_bytes_of, tensors))


def _bytes_of(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _queries(bench: Bench, client: Client) -> Iterator[Measurement]:
    engine, stream = client.engine, bench.stream
    sources = stream.ids.labels[np.unique(stream.src)]
    rng = np.random.default_rng(0)
    names: dict[str, Callable[[object], object]] = {
        "embed a node": lambda node: engine.embed([node], side="src"),  # type: ignore[list-item]
        f"the best ten of {len(stream.destinations):,} destinations": lambda node: engine.recommend(node),  # type: ignore[arg-type]
    }
    for what, query in names.items():
        figures: list[float] = []
        query(sources[0].item())
        with client.arriving():
            before, begun = engine.status().events, time.perf_counter()
            end = begun + READ_SECONDS * bench.settings.repeats / 10
            while time.perf_counter() < end:
                node = rng.choice(sources).item()
                figures.append(_seconds(partial(query, node)))
            rate = (engine.status().events - before) / (time.perf_counter() - begun)
        p50, p99 = 1e3 * np.percentile(figures, [50, 99])
        note = f"p50 {p50:.1f} ms, p99 {p99:.1f} ms, {len(figures):,} queries; {rate:,.0f} events/s arrived"
        yield Measurement.without_peer("live", f"{what} while events arrive, {MODEL}", figures, note=note)


def _many_nodes(bench: Bench) -> Iterator[Measurement]:
    quick = bench.settings.events < NODES[0]
    narrow = min(NARROW, bench.settings.dim)
    for nodes in NODES if not quick else (200, 2000):
        stream = _uniform(nodes)
        config = run_config(MODEL, bench.settings, dim=narrow, time_dim=narrow)
        model = build_model(config, stream).eval()
        with served(model, stream, bench.settings.batch_size, observed=False) as engine:
            client = Client(engine, stream)
            client.send_calls(WARM_UP)
            calls = max(1, bench.settings.batch_size // BATCH)  # until the states observe a batch
            repeats = range(20 * bench.settings.repeats)
            figures = [_seconds(partial(client.send_calls, calls)) / calls / BATCH for _ in repeats]
            held = array_bytes(engine._graph)
        note = f"a random read of its {held / 2**20:,.0f} MB: {1e9 * random_read(held):.0f} ns"
        what = f"take in an event durably among {stream.num_nodes:,} nodes"
        yield Measurement.without_peer("live", what, figures, note=note)


def _uniform(nodes: int) -> EventStream:
    """Return a stream in which every node has four events on average."""
    rng = np.random.default_rng(1)
    src, dst = (rng.integers(0, nodes, 2 * nodes) for _ in range(2))
    return EventStream(src=src, dst=dst, t=np.arange(2 * nodes), ids=NodeIds(np.arange(nodes)))


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
