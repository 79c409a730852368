"""Training by one process and by several ranks: ``python -m contig.benchmarks.ranks --ranks 2``.

Every process uses one thread; figures are medians of steps. The share of the exchange includes the time that
a rank waits for the others. The processor time of a step depends little on what else the machine does; that
of its parts is of the thread that computes, without those that exchange.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

EXCHANGES = ("all_reduce", "all_gather", "all_to_all_single")
PARTS = {"reading": "_read_together", "learning": "_learn", "observing": "_observe_together"}
WARM_STEPS = 5


def run_worker(given: argparse.Namespace) -> None:
    """Time training steps in this process, one of those that torchrun has started."""
    import torch
    import torch.distributed as dist

    from contig.data.synthetic import synthetic
    from contig.kernels.malloc import keep_freed_memory
    from contig.ranks import ranks
    from contig.runs.config import RunConfig
    from contig.streaming.sharded import checked_layout
    from contig.training.preparation import prepare
    from contig.training.session import Session

    keep_freed_memory()  # as ``contig train`` does
    torch.set_num_threads(1)
    spent = [0.0]

    def timed(exchange: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            begun = time.perf_counter()
            result = exchange(*arguments, **options)
            spent[0] += time.perf_counter() - begun
            return result

        return call

    for name in EXCHANGES:
        setattr(dist, name, timed(getattr(dist, name)))
    stream = synthetic(given.events, seed=0)
    config = RunConfig.of(given.model, {"batch_size": given.batch_size}).for_stream(stream)
    layout = checked_layout(given.state)
    session = Session(prepare(stream, config, torch.device("cpu")), config, layout)
    parts = {part: _clocked(session.walker, method) for part, method in PARTS.items()}
    session.begin_epoch()
    for _ in range(WARM_STEPS):
        session.train_step()
    seconds, exchange, computing = [], [], []
    for _ in range(min(given.steps, len(session.steps) - WARM_STEPS)):
        spent[0], begun, worked = 0.0, time.perf_counter(), time.process_time()
        session.train_step()
        seconds.append(time.perf_counter() - begun)
        computing.append(time.process_time() - worked)
        exchange.append(spent[0] / seconds[-1])
    if ranks().first:
        found = {
            "rate": given.batch_size / statistics.median(seconds),
            "exchange": statistics.median(exchange),
            "computing": statistics.median(computing),
            **{part: statistics.median(spans[WARM_STEPS:]) for part, spans in parts.items()},
        }
        Path(given.out).write_text(json.dumps(found), "utf-8")


def _clocked(walker: Any, method: str) -> list[float]:
    """Measure the processor time of each call of a method, in this thread."""
    call, spans = getattr(walker, method), []

    def clocked(*arguments: Any) -> Any:
        begun = time.thread_time()
        result = call(*arguments)
        spans.append(time.thread_time() - begun)
        return result

    setattr(walker, method, clocked)
    return spans


def measure(size: int, arguments: Sequence[str]) -> dict[str, float]:
    """Return the events per second and the share of the exchange with this number of ranks."""
    with tempfile.TemporaryDirectory(prefix="contig-bench-") as folder:
        out = Path(folder) / "result.json"
        worker = ["--module", "contig.benchmarks.ranks", *arguments, "--out", str(out)]
        launch = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(size)]
        command = [sys.executable, "-m", *launch, *worker]
        limits = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
        subprocess.run(command, check=True, env={**os.environ, **limits})
        found: dict[str, float] = json.loads(out.read_text("utf-8"))
        return found


def main(arguments: Sequence[str]) -> None:
    """Compare ranks with one process, or be one of the ranks."""
    parser = argparse.ArgumentParser(prog="python -m contig.benchmarks.ranks", description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--model", default="contig-pair")
    parser.add_argument("--batch-size", type=int, default=1000)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--state", default="replicated")
    parser.add_argument("--out", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.out is not None:
        run_worker(given)
        return
    one, several = measure(1, arguments), measure(given.ranks, arguments)
    print(
        f"{given.model}, batch {given.batch_size:,}, {given.state}: {one['rate']:,.0f} events/s in one "
        f"process, {several['rate']:,.0f} with {given.ranks} ranks ({several['rate'] / one['rate']:.2f} "
        f"times), {several['exchange']:.0%} of the time in exchange"
    )
    for name, found in (("one process", one), (f"{given.ranks} ranks", several)):
        parts = ", ".join(f"{part} {1e3 * found[part]:.1f}" for part in PARTS)
        print(f"{name}: processor time of a step {1e3 * found['computing']:.1f} ms ({parts})")


if __name__ == "__main__":
    main(sys.argv[1:])
