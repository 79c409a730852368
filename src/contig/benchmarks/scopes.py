"""How the cost of a training step grows with the number of nodes, by the scope of ConTIG's ``A``."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from contig.benchmarks.bench import Bench, run_config
from contig.benchmarks.measurement import Measurement
from contig.benchmarks.steps import TrainingSteps
from contig.benchmarks.timing import forget_compiled, time_steps
from contig.data.synthetic import synthetic
from contig.models import EventBatch
from contig.models.bases.memory import MemoryModel
from contig.training.preparation import prepare
from contig.training.session import Session

NODES = (1_000, 10_000, 100_000, 1_000_000)
EVENTS_PER_NODE = 5
MIN_BATCHES = 100  # that a small graph's stream has
WARM_UP, BLOCK = 20, 5  # steps
# On a CPU, a step of scope=all with this many nodes takes seconds; its time and memory grow with the nodes.
MANY_NODES, FEW_WARM_UP, FEW_BLOCKS = 100_000, 1, 3
OTHERS = ("pair", "all")


class LateSteps(TrainingSteps):
    """Takes the last steps of an epoch, when many nodes have latest partners.

    The events before them are not learned from: only which event is each node's latest is entered in the
    state, since the cost of a step depends on that and not on the stored vectors.
    """

    def __init__(self, session: Session, steps: int) -> None:
        super().__init__(session)
        self.start = max(0, len(session.data.split.train) // session.config.train.batch_size - steps)

    def rewind(self) -> None:
        super().rewind()
        session = self.session
        assert isinstance(session.model, MemoryModel)
        earlier = session.walker.schedule.events[: session.steps[self.start].observe_from]
        enter_latest(session, session.model, earlier)
        session.progress.step = self.start


def enter_latest(session: Session, model: MemoryModel, events: torch.Tensor) -> None:
    """Enter in a blank state each node's latest event among these, and the links that follow."""
    state, history = session.state, session.data.training
    batch = EventBatch.of(history, events)
    ends = torch.cat([batch.src, batch.dst])
    state["last"].scatter_reduce_(0, ends, batch.event.repeat(2), "amax")
    if "named" in state.rows:
        nodes = torch.arange(state.num_nodes, device=state.device)
        latest = model.latest(state, history, nodes)
        others = latest.partner[latest.partner != nodes]
        state["named"].index_add_(0, others, torch.ones_like(others))


def measure_scopes(bench: Bench) -> Iterator[Measurement]:
    """Compare a step of ``scope=near`` with one of the others, on synthetic graphs of growing size.

    Graphs have at most a tenth as many nodes as the setting ``events``.
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
    steps = len(data.split.train) // s.batch_size
    what, on_cpu = f"training step, contig, {nodes:,} nodes", bench.device.type == "cpu"
    forget_compiled(bench.device)
    for scope in OTHERS:
        if scope == "all" and nodes > MANY_NODES and on_cpu:
            reason = f"scope all is measured with at most {MANY_NODES:,} nodes on a CPU"
            yield Measurement.missing("scopes", reason, what)
            continue
        first, block, blocks = min(WARM_UP, s.first), BLOCK, s.repeats
        if scope == "all" and nodes == MANY_NODES and on_cpu:
            first, block, blocks = FEW_WARM_UP, 1, min(FEW_BLOCKS, s.repeats)
        last = min(first + block * blocks, steps)
        configs = (run_config("contig", s, scope=one) for one in ("near", scope))
        sides = [LateSteps(Session(data, config), last) for config in configs]
        ours, theirs = time_steps(sides, first, last, blocks, bench.device)
        yield Measurement.compare("scopes", what, ours, f"ours, scope {scope}", theirs)
