"""Looking up the last neighbors of nodes: our history, PyTorch Geometric's loader, a Python loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median

import numpy as np
import torch
from torch import Tensor

from contig.benchmarks.bench import Bench
from contig.benchmarks.environment import require
from contig.benchmarks.measurement import Measurement
from contig.benchmarks.timing import alternate
from contig.data.columns import Array
from contig.data.events import EventStream
from contig.history import History

QUERIES_PER_CALL = (600, 10_000, 100_000)  # a training batch of 200 makes 600
CPU = torch.device("cpu")
LOADER_NAME = "PyG LastNeighborLoader, query and insert"


@dataclass(frozen=True)
class LookupBatch:
    """Consecutive events, and the lookup that precedes them."""

    src: Tensor
    dst: Tensor
    t: Tensor
    nodes: Tensor  # the distinct nodes of the events
    now: Tensor  # [nodes], the first event's time


def stream_columns(stream: EventStream, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor, Tensor]:
    """Copy source, destination and time of every event to the device."""
    src, dst, t = (torch.from_numpy(x.copy()).to(device) for x in (stream.src, stream.dst, stream.t))
    return src, dst, t


def lookup_batches(stream: EventStream, size: int, device: torch.device | str = "cpu") -> list[LookupBatch]:
    """Cut the stream into batches of ``size`` events."""
    batches = []
    for src, dst, t in zip(*(x.split(size) for x in stream_columns(stream, device)), strict=True):
        nodes = torch.cat([src, dst]).unique()
        batches.append(LookupBatch(src, dst, t, nodes, t[0].expand(len(nodes))))
    return batches


def run_loader(num_nodes: int, batches: list[LookupBatch], k: int) -> list[Tensor]:
    """Look up every batch with the peer, then insert it; returns the events found for each batch."""
    require("torch_geometric")
    from torch_geometric.nn.models.tgn import LastNeighborLoader

    loader = LastNeighborLoader(num_nodes, size=k, device=batches[0].src.device)
    found = []
    for batch in batches:
        found.append(loader(batch.nodes)[2])
        loader.insert(batch.src, batch.dst)
    return found


def run_history(history: History, batches: list[LookupBatch], k: int, *, append: bool) -> list[Tensor]:
    """Make the same lookups with ours; ``append`` is for a history that does not have the events yet."""
    found = []
    for batch in batches:
        neighbors = history.before(batch.nodes, batch.now, k)
        found.append(neighbors.event[neighbors.mask])
        if append:
            history.append(batch.src, batch.dst, batch.t)
    return found


def measure_lookup(bench: Bench) -> Iterator[Measurement]:
    """Compare looking up the present neighbors of every batch with PyTorch Geometric's loader.

    The loader only knows the last neighbors as of now, so it has to insert events on the way. Ours is
    measured twice: with all events indexed before, and appending them on the way, which it does on a
    CPU only.
    """
    k, num_nodes, indexed = bench.settings.neighbors, bench.stream.num_nodes, bench.data.history
    what = "look up the neighbors of all batches"

    def query(batches: list[LookupBatch]) -> None:
        run_history(indexed, batches, k, append=False)

    def query_and_append(batches: list[LookupBatch]) -> None:
        history = History.empty(num_nodes, time_dtype=indexed.events["t"].dtype)
        run_history(history, batches, k, append=True)

    yield _compare_with_loader(bench, what, query, bench.device)
    yield _compare_with_loader(bench, f"{what} and append them, on a CPU", query_and_append, CPU)


def _compare_with_loader(
    bench: Bench, what: str, ours: Callable[[list[LookupBatch]], None], device: torch.device
) -> Measurement:
    k, num_nodes = bench.settings.neighbors, bench.stream.num_nodes
    batches = lookup_batches(bench.stream, bench.settings.batch_size, device)
    own, theirs = alternate(
        [lambda: ours(batches), lambda: run_loader(num_nodes, batches, k)], bench.few_repeats, device
    )
    note = f"{len(bench.stream) / median(own):,.0f} events/s"
    return Measurement.compare("lookup", what, own, LOADER_NAME, theirs, note=note)


# -- lookups in the past --------------------------------------------------------------------------


class LoopFinder:
    """The lookup that temporal graph networks were first published with: a Python loop over queries.

    Each node has its own arrays in time order. A query bisects the times and copies the last ``k``
    entries, oldest first, to the right end of a 32-bit row of zeros.
    """

    def __init__(self, stream: EventStream) -> None:
        entries: list[list[tuple[int, int, float]]] = [[] for _ in range(stream.num_nodes)]
        columns = (stream.src.tolist(), stream.dst.tolist(), stream.t.tolist())
        for event, (src, dst, t) in enumerate(zip(*columns, strict=True)):
            entries[src].append((dst, event, t))
            if src != dst:
                entries[dst].append((src, event, t))
        self.nodes = [np.array([x[0] for x in some], dtype=np.int64) for some in entries]
        self.events = [np.array([x[1] for x in some], dtype=np.int64) for some in entries]
        self.times = [np.array([x[2] for x in some], dtype=stream.t.dtype) for some in entries]

    def past(self, node: int, when: float) -> tuple[Array, Array, Array]:
        end = np.searchsorted(self.times[node], when)
        return self.nodes[node][:end], self.events[node][:end], self.times[node][:end]

    def before(self, nodes: Array, times: Array, k: int) -> tuple[Array, Array, Array]:
        out_nodes = np.zeros((len(nodes), k), dtype=np.int32)
        out_events = np.zeros((len(nodes), k), dtype=np.int32)
        out_times = np.zeros((len(nodes), k), dtype=np.float32)
        for i, (node, when) in enumerate(zip(nodes, times, strict=True)):
            past_nodes, past_events, past_times = self.past(node, when)
            if len(past_nodes):
                last_nodes, last_events, last_times = past_nodes[-k:], past_events[-k:], past_times[-k:]
                out_nodes[i, k - len(last_nodes) :] = last_nodes
                out_events[i, k - len(last_events) :] = last_events
                out_times[i, k - len(last_times) :] = last_times
        return out_nodes, out_events, out_times


def training_queries(stream: EventStream, size: int, calls: int) -> list[tuple[Array, Array]]:
    """Create calls of ``size`` queries (nodes, times) as training makes them.

    Each call queries sources, destinations and random negatives of consecutive events at the
    events' times, moving on from the middle of the stream.
    """
    rng = np.random.default_rng(0)
    half, events = len(stream) // 2, size // 3
    queries = []
    for call in range(calls):
        start = half + call * events % (half - events + 1)
        part = stream[start : start + events]
        negatives = rng.choice(stream.destinations, events)
        queries.append((np.concatenate([part.src, part.dst, negatives]), np.tile(part.t, 3)))
    return queries


def measure_lookup_loop(bench: Bench) -> Iterator[Measurement]:
    """Compare looking up neighbors at any time in the past with a loop in Python."""
    k, stream, history = bench.settings.neighbors, bench.stream, bench.data.history
    finder = LoopFinder(stream)
    for size in QUERIES_PER_CALL:
        if size // 3 > len(stream) // 2:
            continue
        queries = training_queries(stream, size, calls=-(-bench.settings.queries // size))
        tensors = [tuple(torch.from_numpy(x).to(bench.device) for x in call) for call in queries]

        def ours(tensors: list[tuple[Tensor, ...]] = tensors) -> None:
            for nodes, times in tensors:
                history.before(nodes, times, k)

        def loop(queries: list[tuple[Array, Array]] = queries) -> None:
            for nodes, times in queries:
                finder.before(nodes, times, k)

        own, theirs = alternate([ours, loop], bench.settings.repeats, bench.device)
        count = sum(len(nodes) for nodes, _ in queries)
        yield Measurement.compare(
            "lookup-loop",
            f"look up {k} neighbors, {size:,} queries per call",
            own,
            "Python loop",
            theirs,
            note=f"{count / median(own):,.0f} queries/s; target: a ratio of at least 50",
        )
