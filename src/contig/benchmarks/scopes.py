"""How the cost of a training step grows with the number of nodes, by the scope of ConTIG's ``A``."""

from __future__ import annotations

from collections.abc import Iterator

from contig.benchmarks.bench import Bench, run_config
from contig.benchmarks.measurement import Measurement
from contig.benchmarks.steps import TrainingSteps
from contig.benchmarks.timing import time_steps
from contig.data.synthetic import synthetic
from contig.training.preparation import prepare
from contig.training.session import Session

NODES = (1_000, 10_000, 100_000, 1_000_000)
EVENTS_PER_NODE = 2
MIN_BATCHES = 100  # that a small graph's stream has
WARM_UP, BLOCK = 20, 5  # steps; with all nodes of a large graph, more would take minutes
OTHERS = ("pair", "all")
LARGEST_WITH_ALL = 100_000  # nodes; a step with all of a million takes minutes on a CPU


def measure_scopes(bench: Bench) -> Iterator[Measurement]:
    """Compare a step of the default scope with the others, on synthetic graphs of growing size.

    Graphs have at most a tenth as many nodes as the setting ``events``; on the largest, ``all`` is left out.
    """
    largest = bench.settings.events // 10
    for nodes in [n for n in NODES if n <= largest] or [largest]:
        yield from _with_nodes(bench, nodes)


def _with_nodes(bench: Bench, nodes: int) -> Iterator[Measurement]:
    s = bench.settings
    sources = 4 * nodes // 5
    events = max(EVENTS_PER_NODE * nodes, MIN_BATCHES * s.batch_size)
    stream = synthetic(events, sources=sources, destinations=nodes - sources)
    data = prepare(stream, run_config("contig", s), bench.device)

    def training(**settings: str) -> TrainingSteps:
        return TrainingSteps(Session(data, run_config("contig", s, **settings)))

    first = min(WARM_UP, s.first)
    last = min(first + BLOCK * s.repeats, len(data.split.train) // s.batch_size)
    near = training()
    for scope in [one for one in OTHERS if one != "all" or nodes <= LARGEST_WITH_ALL]:
        ours, theirs = time_steps((near, training(scope=scope)), first, last, s.repeats, bench.device)
        what = f"training step, contig, {nodes:,} nodes"
        yield Measurement.compare("scopes", what, ours, f"ours, scope {scope}", theirs)
