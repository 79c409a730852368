"""What an index costs as a stream grows: ``python -m contig.benchmarks.scale 1e6 1e7 1e8 --folder scale``.

For each size: synthetic Parquet files are written, indexed in a process of its own, and used in another one:
lookups of random nodes at random times, training steps in the middle of an epoch, and live events after the
last one. Files and indexes that are in the folder already are used again, so that an interrupted benchmark
continues; progress goes to standard error, and the table is printed after each size.

"Random reads" are one read of each of the five arrays that a lookup reads, at random places and all at once:
what a lookup costs grows as these do, once the arrays outgrow the caches and the translation of addresses.

Indexing and preparing are measured in elapsed time, the rest in processor time of one thread, which other
processes do not disturb. ``--elapsed`` measures everything in elapsed time, for what waits for a disk.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from contig.benchmarks.processes import in_new_process
from contig.data.index_folder import read_head
from contig.data.readers import read_events
from contig.files import replacing, write_json
from contig.history import History
from contig.history.building import build_index
from contig.options import parse_settings
from contig.runs.config import RunConfig
from contig.streaming.batches import StreamBatches, observe_reversibly
from contig.streaming.online import OnlineState
from contig.training.preparation import prepare
from contig.training.session import Session

EVENTS_PER_FILE = 5_000_000
EVENTS_PER_NODE = 10
DISORDER = 2000  # how far an event may be from its place in time order
QUERIES, NEIGHBORS = 100_000, 10
LOOKUP_ROUNDS = 5  # that map pages, before as many that are timed
WARM_STEPS, TIMED_STEPS = 20, 50
LIVE_BATCH, LIVE_BATCHES = 100, 60
SETTINGS: dict[str, Any] = {"dim": 64, "batch_size": 200}
GIB = 1 << 30

Clock = Callable[[], float]  # returns seconds


@dataclass(frozen=True)
class Trial:
    """What is measured besides a number of events."""

    model: str = "contig"
    settings: Mapping[str, str] = field(default_factory=dict)  # besides SETTINGS
    events_per_node: int = EVENTS_PER_NODE
    elapsed: bool = False

    def clock(self) -> float:
        """Return the seconds that are counted: those of the processor, or of the clock."""
        return time.perf_counter() if self.elapsed else time.process_time()

    def stream_name(self, events: int) -> str:
        """Return the name of the folder of the files."""
        usual = self.events_per_node == EVENTS_PER_NODE
        return f"{events}" if usual else f"{events}-{self.events_per_node}-per-node"

    @property
    def results_name(self) -> str:
        """The name of the file of the results."""
        options = [f"{name}={value}" for name, value in self.settings.items()]
        return "-".join(["costs", self.model, *options]) + ".json"


@dataclass(frozen=True)
class Costs:
    """What one size costs."""

    events: int
    nodes: int
    index_seconds: float
    index_peak: int  # bytes
    bytes_per_event: float
    prepare_seconds: float
    lookup_us: float  # per query
    reads_us: float  # one random read of each array that a query reads
    step_us: float  # per event of a training step
    live_us: float  # per live event
    use_peak: int  # bytes


def write_files(folder: Path, events: int, events_per_node: int = EVENTS_PER_NODE) -> None:
    """Write synthetic events, by default between a tenth as many nodes, a file at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    half = max(events // events_per_node // 2, 10)
    for number, first in enumerate(range(0, events, EVENTS_PER_FILE)):
        path, size = folder / f"{number:04}.parquet", min(EVENTS_PER_FILE, events - first)
        if path.exists():
            continue
        rng = np.random.default_rng(number)
        ends = [(half * rng.random(size) ** 2).astype(np.int64) for _ in range(2)]  # some are more active
        t = np.maximum(0, first + np.arange(size) + rng.integers(-DISORDER, DISORDER, size))
        with replacing(path) as part:
            pq.write_table(pa.table({"src": ends[0], "dst": half + ends[1], "t": t}), part)


def measure_indexing(files: Path, index: Path) -> tuple[float, int]:
    """Build an index; return the seconds and the peak memory of this process."""
    begun = time.perf_counter()
    build_index(files, index, show=True)
    return time.perf_counter() - begun, peak_memory()


def measure_use(index: Path, trial: Trial) -> dict[str, Any]:
    """Open an index and time what is done with it; return columns of ``Costs``."""
    begun = time.perf_counter()
    say(f"{index}: preparing to train {trial.model}")
    stream = read_events(index)
    config = RunConfig.of(trial.model, {**SETTINGS, **trial.settings}).for_stream(stream)
    session = Session(prepare(stream, config, torch.device("cpu")), config)
    session.begin_epoch()
    session.draw_negatives()
    costs: dict[str, Any] = {"prepare_seconds": time.perf_counter() - begun}
    say(f"{index}: prepared in {costs['prepare_seconds']:.1f} s; timing lookups")
    costs["lookup_us"] = 1e6 * time_lookups(session.data.history, trial.clock)
    costs["reads_us"] = 1e6 * time_random_reads(session.data.history, trial.clock)
    say(f"{index}: {costs['lookup_us']:.2f} us per lookup; timing training steps")
    costs["step_us"] = 1e6 * time_steps(session, trial.clock)
    say(f"{index}: {costs['step_us']:.1f} us per event; timing live events")
    costs["live_us"] = 1e6 * time_live_events(session, trial.clock)
    return {**costs, "use_peak": peak_memory()}


def say(line: str) -> None:
    """Report progress."""
    print(line, file=sys.stderr, flush=True)


def time_lookups(history: History, clock: Clock) -> float:
    """Return the seconds per lookup of a random node at a random time, once most pages are mapped."""
    rng = np.random.default_rng(0)
    seconds = []
    for _ in range(2 * LOOKUP_ROUNDS):
        nodes = torch.from_numpy(rng.integers(0, history.num_nodes, QUERIES))
        times = history.events["t"][torch.from_numpy(rng.integers(0, history.num_events, QUERIES))]
        begun = clock()
        history.before(nodes, times, NEIGHBORS)
        seconds.append((clock() - begun) / QUERIES)
    return float(np.median(seconds[LOOKUP_ROUNDS:]))


def time_random_reads(history: History, clock: Clock) -> float:
    """Return the seconds of reading one random element of each array that a lookup reads."""
    arrays = history.segments.trimmed(history.num_nodes)
    read = [array for name, array in arrays.items() if name != "capacity"]
    rng, seconds = np.random.default_rng(2), []
    for _ in range(5):
        places = [torch.from_numpy(rng.integers(0, len(array), QUERIES)) for array in read]
        begun = clock()
        for array, at in zip(read, places, strict=True):
            array.index_select(0, at)
        seconds.append((clock() - begun) / QUERIES)
    return float(np.median(seconds[1:]))


def time_steps(session: Session, clock: Clock) -> float:
    """Return the seconds per event of training steps in the middle of an epoch."""
    session.progress.step = len(session.steps) // 2
    seconds = []
    for _ in range(WARM_STEPS + TIMED_STEPS):
        begun = clock()
        session.train_step()
        seconds.append(clock() - begun)
    return float(np.median(seconds[WARM_STEPS:])) / session.config.train.batch_size


def time_live_events(session: Session, clock: Clock) -> float:
    """Return the seconds per event that arrives after the last one, in small batches."""
    model, state, history = session.model.eval(), session.state, session.data.history
    batches = StreamBatches(history, session.config.train.batch_size)
    state.position = batches.end(batches.complete)
    tip = observe_reversibly(model, state, batches, history.num_events)
    online = OnlineState(model, history, state, batches.batch_size, tip=tip)
    rng, last, seconds = np.random.default_rng(1), int(history.events["t"][-1]), []
    for number in range(LIVE_BATCHES):
        at = torch.from_numpy(rng.integers(0, session.data.split.train.size, LIVE_BATCH))
        src, dst = history.events["src"][at], history.events["dst"][at]
        t = last + 1 + torch.arange(LIVE_BATCH) + number * LIVE_BATCH
        begun = clock()
        online.observe(src, dst, t)
        seconds.append((clock() - begun) / LIVE_BATCH)
    return float(np.mean(seconds[LIVE_BATCHES // 5 :]))  # some calls complete a batch, which costs more


def peak_memory() -> int:
    """Return the largest resident size of this process so far, with the mapped pages that it has read."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def measure(events: int, folder: Path, trial: Trial) -> Costs:
    """Measure one size; the index is built if it is not there yet."""
    name = trial.stream_name(events)
    files, index, record = (folder / f"{name}{ending}" for ending in ("", ".index", ".json"))
    say(f"{files}: writing {events:,} events, unless they are there")
    write_files(files, events, trial.events_per_node)
    if not record.exists():
        seconds, peak = in_new_process(measure_indexing, files, index)
        write_json(record, {"index_seconds": seconds, "index_peak": peak})
    head = read_head(index)
    return Costs(
        events=events,
        nodes=head.nodes,
        bytes_per_event=sum(file.size for file in head.files.values()) / events,
        **json.loads(record.read_text("utf-8")),
        **in_new_process(measure_use, index, trial),
    )


def exponents(rows: Sequence[Costs]) -> dict[str, float]:
    """Fit ``cost = c * events ** a`` to every column, and return the exponents ``a``."""
    sizes = np.log([row.events for row in rows])
    names = [one.name for one in fields(Costs) if one.name not in ("events", "nodes")]
    return {
        name: float(np.polyfit(sizes, np.log([getattr(row, name) for row in rows]), 1)[0]) for name in names
    }


def cells(row: Costs) -> dict[str, str]:
    """Return the cells of a row by heading."""
    return {
        "events": f"{row.events:,}",
        "nodes": f"{row.nodes:,}",
        "index, s": f"{row.index_seconds:.1f}",
        "peak of indexing, GiB": f"{row.index_peak / GIB:.2f}",
        "bytes/event": f"{row.bytes_per_event:.1f}",
        "prepare, s": f"{row.prepare_seconds:.1f}",
        "lookup, us": f"{row.lookup_us:.2f}",
        "random reads, us": f"{row.reads_us:.2f}",
        "training, us/event": f"{row.step_us:.1f}",
        "live, us/event": f"{row.live_us:.1f}",
        "peak of use, GiB": f"{row.use_peak / GIB:.2f}",
    }


def table(rows: Sequence[Costs]) -> str:
    """Format the costs, and the exponents if there is more than one size, as Markdown."""
    headings = list(cells(rows[0]))
    lines = ["| " + " | ".join(headings) + " |", "|" + "---:|" * len(headings)]
    lines += ["| " + " | ".join(cells(row).values()) + " |" for row in rows]
    if len(rows) > 1:
        lines.append("| exponent | | " + " | ".join(f"{a:.2f}" for a in exponents(rows).values()) + " |")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> None:
    """Measure the sizes that are given, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m contig.benchmarks.scale", description=__doc__)
    parser.add_argument("events", nargs="+", type=float, help="numbers of events, such as 1e6 1e7")
    parser.add_argument("--folder", type=Path, required=True, help="for the files and the indexes")
    parser.add_argument("--model", default="contig")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="an option of the run"
    )
    parser.add_argument("--events-per-node", type=int, default=EVENTS_PER_NODE)
    parser.add_argument("--elapsed", action="store_true", help="measure everything in elapsed time")
    given = parser.parse_args(arguments)
    os.environ["OMP_NUM_THREADS"] = (
        "1"  # of the processes that measure: threads that wait take processor time
    )
    trial = Trial(given.model, parse_settings(given.set), given.events_per_node, given.elapsed)
    rows = []
    for events in given.events:
        rows.append(measure(int(events), given.folder, trial))
        write_json(given.folder / trial.results_name, [asdict(row) for row in rows])
        print(table(rows), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
