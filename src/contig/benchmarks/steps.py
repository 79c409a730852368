"""Training and scoring steps, compared with the peer and with our own unoptimized step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from statistics import median

import numpy as np
import torch

from contig.benchmarks import peers
from contig.benchmarks.bench import Bench, run_config
from contig.benchmarks.measurement import Measurement
from contig.benchmarks.timing import seconds
from contig.data.negatives import Negatives
from contig.kernels.dispatch import disabled
from contig.models import NodeState
from contig.tasks.link_scoring import LinkScorer, NegativePairs
from contig.training.preparation import prepare
from contig.training.session import Session


class TrainingSteps:
    """Trains through the first epoch, from its start after every ``rewind``; compiled code is kept.

    A session draws the negatives of a whole epoch at once. ``rewind`` measures that, and adds each
    step's share to its time. ``plain`` steps use torch operations only, without captured graphs.
    """

    def __init__(self, session: Session, *, plain: bool = False) -> None:
        self.session, self.overhead = session, 0.0
        self._backend = disabled if plain else nullcontext
        if plain:
            session.walker.captured.capturable = False

    def rewind(self) -> None:
        with self._backend():
            self.session.begin_epoch()
            draw = self.session.draw_negatives
            draw()  # the first call allocates and compiles
            self.overhead = seconds(draw, self.session.data.device) / len(self.session.steps)

    def advance(self, steps: int) -> None:
        with self._backend():
            for _ in range(steps):
                self.session.train_step()


class ScoringSteps:
    """Scores and observes the stream from its first event on, up to ``last`` batches."""

    overhead = 0.0

    def __init__(self, session: Session, last: int) -> None:
        data, self.size = session.data, session.config.train.batch_size
        self.state: NodeState = session.model.new_state(data.stream.num_nodes)
        self.events = np.arange(min(last * self.size, len(data.stream)))
        index = torch.from_numpy(self.events).to(data.device)
        negatives = Negatives(data.stream, seed=0, device=data.device)
        self.negative = NegativePairs(negatives.draw(index, data.history.events["src"][index]))
        self.scorer = LinkScorer(session.model, self.state, data.history, self.size)
        self.step = 0
        if data.device.type == "cuda":  # a first pass finds out how much room the batches need
            self.scorer(self.events, self.negative)

    def rewind(self) -> None:
        self.step = 0
        self.state.reset()

    def advance(self, steps: int) -> None:
        part = slice(self.step * self.size, (self.step + steps) * self.size)
        self.scorer(self.events[part], NegativePairs(self.negative.dst[part]))
        self.step += steps


def measure_step(bench: Bench, model: str) -> Iterator[Measurement]:
    """Compare a training step of ``model`` with one of the peer."""
    peer = bench.peer()
    ours, theirs = bench.time_steps(TrainingSteps(bench.session(model)), peer)
    yield Measurement.compare(
        *(f"{model}-step", f"training step, {model}", ours, peers.NAME, theirs), note=_speed(bench, ours)
    )


def measure_plain_step(bench: Bench, model: str) -> Iterator[Measurement]:
    """Compare a training step of ``model`` with the same step without our optimizations."""
    plain = TrainingSteps(bench.session(model, plain=True), plain=True)
    ours, theirs = bench.time_steps(TrainingSteps(bench.session(model)), plain)
    peer = "ours with torch operations only"
    if bench.device.type == "cuda":
        peer = "ours without graph capture, compilation and packed nodes"
    yield Measurement.compare(f"{model}-plain", f"training step, {model}", ours, peer, theirs)


def measure_epoch(bench: Bench) -> Iterator[Measurement]:
    """Compare a whole epoch with the peer's, including negatives and the last, smaller batch."""
    session, peer = bench.session("contig"), bench.peer()
    training = TrainingSteps(session)
    bench.time_steps(training, peer)  # the warm-up

    def ours() -> None:
        session.begin_epoch()
        training.advance(len(session.steps))

    def theirs() -> None:
        peer.rewind()
        peer.advance(len(session.steps))

    what = f"epoch of {len(bench.data.split.train):,} events, contig"
    own, other = ([seconds(work, bench.device)] for work in (ours, theirs))
    yield Measurement.compare("epoch", what, own, peers.NAME, other)


def measure_host(bench: Bench) -> Iterator[Measurement]:
    """Compare a step with states and history in host memory with one that has them on the GPU."""
    if bench.device.type == "cpu":
        yield Measurement.missing("host", "on a CPU the graph is always in host memory")
        return
    what = "training step, contig, graph in host memory"
    yield _placed(bench, "host", what, "ours, graph on the GPU")


def measure_disk(bench: Bench) -> Iterator[Measurement]:
    """Compare a step with states in a file, whose pages are cached, with one that has them in memory."""
    if bench.device.type != "cpu":
        yield Measurement.missing("disk", "node states are on disk only for a CPU")
        return
    yield _placed(bench, "disk", "training step, contig, node states on disk", "ours, node states in memory")


def _placed(bench: Bench, place: str, what: str, usual: str) -> Measurement:
    """Compare a step with the graph in another place (``graph_in``) with one that has it in the usual one."""
    config = run_config("contig", bench.settings, graph_in=place)
    there = TrainingSteps(Session(prepare(bench.stream, config, bench.device), config))
    ours, theirs = bench.time_steps(there, TrainingSteps(bench.session("contig")))
    return Measurement.compare(place, what, ours, usual, theirs)


def measure_scoring(bench: Bench) -> Iterator[Measurement]:
    """Compare scoring and observing a batch, without gradients, with the peer."""
    peer = bench.peer(learn=False)
    ours, theirs = bench.time_steps(ScoringSteps(bench.session("contig"), bench.settings.last), peer)
    what, name = "score and observe a batch, contig", f"{peers.NAME}, evaluating"
    yield Measurement.compare("scoring", what, ours, name, theirs, note=_speed(bench, ours))


def _speed(bench: Bench, step_seconds: list[float]) -> str:
    return f"{bench.settings.batch_size / median(step_seconds):,.0f} events/s"
