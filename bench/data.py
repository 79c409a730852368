"""How fast events are read, indexed and looked up, each beside what one would use otherwise.

    python bench/data.py [--json] [--events 10000000] [--repeats 5]

Both sides of a row are timed in turns in this one run, so that whatever else the machine does
falls on both. Lookups run on the wikipedia stream of the folder CONTIG_DATA, else on a synthetic
one. Rates are medians over the repeats; a ratio is the median of the repeats' own ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from contig.benchmarks.lookups import batches, run_history, run_loader, stream_columns
from contig.benchmarks.timing import load, processor, versions
from contig.data.columns import Array
from contig.data.events import EventStream
from contig.data.readers import read_events
from contig.data.synthetic import synthetic
from contig.history import History

K = 15  # neighbours a lookup asks for, as in the paper
BATCH = 200  # events, as in the paper
CALLS = {600: 200, 10_000: 12, 100_000: 2}  # queries in one call: calls in one repeat
PACKAGES = ("contig", "torch", "numpy", "numba", "pandas", "pyarrow", "torch-geometric")

Work = Callable[[], Any]


@dataclass(frozen=True)
class Measurement:
    """One row: what was done how fast, and how fast the peer did it."""

    name: str
    unit: str
    ours: float
    ours_range: tuple[float, float]
    peer_name: str | None = None
    peer: float | None = None
    ratio: float | None = None
    ratio_range: tuple[float, float] | None = None
    aim: str = ""


def seconds(work: Work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def rate(name: str, unit: str, amount: int, ours: Work, repeats: int) -> Measurement:
    """How many of ``amount`` a second, without a peer."""
    ours()  # compiles, fills caches
    rates = [amount / seconds(ours) for _ in range(repeats)]
    return Measurement(name, unit, median(rates), (min(rates), max(rates)))


def against(
    name: str, unit: str, amount: int, ours: Work, peer_name: str, peer: Work, repeats: int, aim: str = ""
) -> Measurement:
    """The same for both sides, in turns; a ratio above 1 says that ours is faster."""
    ours(), peer()
    pairs = [(amount / seconds(ours), amount / seconds(peer)) for _ in range(repeats)]
    rates, ratios = [a for a, _ in pairs], [a / b for a, b in pairs]
    return Measurement(
        name,
        unit,
        median(rates),
        (min(rates), max(rates)),
        peer_name,
        median(b for _, b in pairs),
        median(ratios),
        (min(ratios), max(ratios)),
        aim,
    )


# -- reading ---------------------------------------------------------------------------------------


def write_events(stream: EventStream, folder: Path) -> tuple[Path, Path]:
    """The stream with the users' own ids as a CSV and as a Parquet file."""
    labels = stream.ids.labels
    frame = pd.DataFrame({"src": labels[stream.src], "dst": labels[stream.dst], "t": stream.t})
    csv, parquet = folder / "events.csv", folder / "events.parquet"
    frame.to_csv(csv, index=False)
    frame.to_parquet(parquet, index=False)
    return csv, parquet


def reading(events: int, repeats: int) -> Iterator[Measurement]:
    """Files into a checked, ordered, numbered stream; the peer stops at a table of columns."""
    with tempfile.TemporaryDirectory() as folder:
        csv, parquet = write_events(synthetic(events=events), Path(folder))
        for kind, path, peer in (("CSV", csv, pd.read_csv), ("Parquet", parquet, pd.read_parquet)):
            yield against(
                f"read {kind}, {events:,} rows",
                "rows/s",
                events,
                lambda path=path: read_events(path),  # type: ignore[misc]
                f"pandas.read_{kind.lower()}",
                lambda path=path, peer=peer: peer(path),  # type: ignore[misc]
                repeats,
            )


# -- the index -------------------------------------------------------------------------------------


def building(events: int, repeats: int) -> Iterator[Measurement]:
    stream = synthetic(events=events)
    yield against(
        f"build the index, {events:,} events",
        "events/s",
        events,
        lambda: History.from_stream(stream),
        "one numpy stable argsort of as many int64",
        lambda: np.argsort(stream.src, kind="stable"),
        repeats,
        aim=">= 0.25",
    )
    size = History.from_stream(stream).nbytes() / events
    yield Measurement("size of the index", "bytes/event", size, (size, size), aim="<= 40")


def appending(stream: EventStream, repeats: int) -> Iterator[Measurement]:
    """Growing a history from nothing, event by event and batch by batch."""
    columns = stream_columns(stream)
    for size in (1, BATCH, 10_000):
        count = min(len(stream), 500 * size)
        parts = [[x[i : i + size] for x in columns] for i in range(0, count, size)]

        def work(parts: list[list[Tensor]] = parts) -> None:
            history = History.empty(time_dtype=columns[2].dtype)
            for part in parts:
                history.append(*part)

        yield rate(f"append, {size:,} at a time", "events/s", count, work, repeats)


# -- lookups ---------------------------------------------------------------------------------------


class LoopFinder:
    """A lookup as temporal graph networks were first published with: one Python step per query.

    Every node has its own arrays in time order; a query bisects the times, slices the arrays and
    copies the last ``k`` to the right end of its row of zeros (32 bits wide), the oldest first.
    """

    def __init__(self, stream: EventStream) -> None:
        found: list[list[tuple[int, int, float]]] = [[] for _ in range(stream.num_nodes)]
        columns = (stream.src.tolist(), stream.dst.tolist(), stream.t.tolist())
        for event, (src, dst, t) in enumerate(zip(*columns, strict=True)):
            found[src].append((dst, event, t))
            if src != dst:
                found[dst].append((src, event, t))
        self.nodes = [np.array([x[0] for x in entries], dtype=np.int64) for entries in found]
        self.events = [np.array([x[1] for x in entries], dtype=np.int64) for entries in found]
        self.times = [np.array([x[2] for x in entries], dtype=stream.t.dtype) for entries in found]

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


def batch_queries(stream: EventStream, size: int, calls: int) -> list[tuple[Array, Array]]:
    """Calls of ``size`` queries as training makes them: sources, destinations and random negatives
    of consecutive events at the events' times, call after call from the middle of the stream on."""
    rng = np.random.default_rng(0)
    events = min(size // 3, len(stream) // 2)
    queries = []
    for call in range(calls):
        start = len(stream) // 2 + call * events % (len(stream) // 2 - events + 1)
        part = stream[start : start + events]
        negatives = rng.choice(stream.destinations, events)
        queries.append((np.concatenate([part.src, part.dst, negatives]), np.tile(part.t, 3)))
    return queries


def lookups(
    stream: EventStream, repeats: int, calls_by_size: dict[int, int] | None = None
) -> Iterator[Measurement]:
    history, finder = History.from_stream(stream), LoopFinder(stream)
    for size, calls in (calls_by_size or CALLS).items():
        queries = batch_queries(stream, size, calls)
        tensors = [(torch.from_numpy(nodes), torch.from_numpy(times)) for nodes, times in queries]

        def ours(tensors: list[tuple[Tensor, Tensor]] = tensors) -> None:
            for nodes, times in tensors:
                history.before(nodes, times, K)

        def loop(queries: list[tuple[Array, Array]] = queries) -> None:
            for nodes, times in queries:
                finder.before(nodes, times, K)

        amount = sum(len(nodes) for nodes, _ in queries)
        name = f"look up {K} neighbours, {size:,} a call"
        yield against(name, "queries/s", amount, ours, "Python loop", loop, repeats, aim=">= 50")


def present(stream: EventStream, repeats: int) -> Iterator[Measurement]:
    """The only question the peer can answer, the last neighbours as of now, over the whole stream.

    Its answer also relabels the nodes; it forgets what is older and cannot be asked about the past.
    """
    parts, whole = batches(stream, BATCH), History.from_stream(stream)
    dtype = whole.events["t"].dtype

    def ours() -> None:
        run_history(whole, parts, K, append=False)

    def growing() -> None:
        run_history(History.empty(stream.num_nodes, time_dtype=dtype), parts, K, append=True)

    def peer() -> None:
        run_loader(stream, parts, K)

    name, told = f"neighbours now, batches of {BATCH}", "PyG LastNeighborLoader, query + insert"
    yield against(f"{name}: query", "events/s", len(stream), ours, told, peer, repeats)
    yield against(f"{name}: query + append", "events/s", len(stream), growing, told, peer, repeats)


# -- the report ------------------------------------------------------------------------------------


def lookup_stream() -> EventStream:
    path = Path(os.environ.get("CONTIG_DATA", "")) / "wikipedia.parquet"
    return read_events(path) if path.is_file() else synthetic(events=150_000)


def measure(events: int, repeats: int) -> Iterator[Measurement]:
    yield from reading(max(events // 10, 1), repeats)
    yield from building(events, repeats)
    stream = lookup_stream()
    yield from lookups(stream, repeats)
    yield from present(stream, repeats)
    yield from appending(stream, repeats)


def surroundings() -> dict[str, str]:
    """What the numbers were taken on."""
    return {
        "command": " ".join(["python", *sys.argv]),
        "cpu": processor(),
        "load": f"{load()} before the run",
        "versions": ", ".join(f"{name} {number}" for name, number in versions(PACKAGES).items()),
        "lookups on": str(lookup_stream().origin),
    }


def spread(low_high: tuple[float, float] | None, style: str) -> str:
    return "" if low_high is None else "{} .. {}".format(*(format(x, style) for x in low_high))


def as_table(rows: list[Measurement]) -> Table:
    table = Table("measured", "unit", "ours", "ours, range", "peer", "peer's", "ratio", "range", "aim")
    for row in rows:
        table.add_row(
            row.name,
            row.unit,
            f"{row.ours:,.0f}",
            spread(row.ours_range, ",.0f"),
            row.peer_name or "",
            "" if row.peer is None else f"{row.peer:,.0f}",
            "" if row.ratio is None else f"{row.ratio:.2f}",
            spread(row.ratio_range, ".2f"),
            row.aim,
        )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure contig's data path against its peers.")
    parser.add_argument("--json", action="store_true", help="print the measurements as JSON")
    parser.add_argument("--events", type=int, default=10_000_000, help="events to index; a tenth is read")
    parser.add_argument("--repeats", type=int, default=5, help="timed rounds of each measurement")
    options = parser.parse_args()
    around = surroundings()
    rows = list(measure(options.events, options.repeats))
    if options.json:
        print(json.dumps({**around, "measurements": [asdict(row) for row in rows]}, indent=2))
        return
    console = Console(width=None if sys.stdout.isatty() else 200)
    for name, value in around.items():
        console.print(f"{name}: {value}", highlight=False)
    console.print(as_table(rows))


if __name__ == "__main__":
    main()
