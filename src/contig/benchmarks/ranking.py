"""Ranking test events among all destinations, and what it costs to do so at each event's own time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from statistics import median

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contig.benchmarks.bench import Bench, run_config
from contig.benchmarks.measurement import Measurement
from contig.benchmarks.steps import TrainingSteps
from contig.benchmarks.timing import alternate
from contig.data.events import EventStream
from contig.data.negatives import Negatives
from contig.history import History
from contig.kernels.dispatch import disabled
from contig.models import EventBatch, Model, NodeState
from contig.models.contract import pairs_per_call
from contig.runs.run import Run
from contig.streaming.walker import replay
from contig.tasks.metrics import rank_metrics
from contig.tasks.ranking import Ranker, ranks
from contig.training.session import Session

RANKED_ON_CPU = 40  # test events that `ranking` takes by default
RANKED_BY_TIME = {"cpu": 200, "cuda": 600}  # and `ranking-times`


def measure_ranking(bench: Bench) -> Iterator[Measurement]:
    """Compare ranking with scoring every pair on its own; times are of all test events."""
    model, test, size = bench.session("contig").model, bench.data.split.test, bench.settings.batch_size
    history, destinations = bench.data.history, bench.stream.destinations
    events = test[: bench.settings.ranked or (len(test) if bench.device.type == "cuda" else RANKED_ON_CPU)]
    sample = test[: max(1, min(len(events) // 2, 2 * size))]
    negatives = Negatives(bench.stream, events=test, device=bench.device)
    state = state_before(bench, model, test)
    start = state.clone().snapshot()  # a copy: ranking moves the state on
    ranker = Ranker(model, state, history, size, negatives)

    def ours() -> None:
        state.restore(start)
        ranker(events)

    def pairwise() -> None:
        state.restore(start)
        _rank_pairwise(model, state, history, negatives, torch.from_numpy(sample).to(bench.device))

    own, theirs = alternate([ours, pairwise], bench.few_repeats, bench.device)
    own = [x * len(test) / len(events) for x in own]
    theirs = [x * len(test) / len(sample) for x in theirs]
    extrapolated = f"the peer's time is extrapolated from the first {len(sample):,} events"
    if len(events) < len(test):
        extrapolated += f", ours from the first {len(events):,}"
    yield Measurement.compare(
        "ranking",
        f"rank all {len(test):,} test events among {len(destinations):,} destinations",
        own,
        "every pair through model.link, torch operations only",
        theirs,
        note=f"{len(test) / median(own):,.0f} events/s; {extrapolated}",
    )


def state_before(bench: Bench, model: Model, test: NDArray[np.int64]) -> NodeState:
    """Return the state of a model that has observed everything before the test events."""
    state = model.new_state(bench.stream.num_nodes)
    replay(model, state, bench.data.history, np.arange(test[0]), bench.settings.batch_size)
    return state


def _rank_pairwise(
    model: Model, state: NodeState, history: History, negatives: Negatives, events: Tensor
) -> None:
    """Rank events by scoring each pair of source and candidate on its own."""
    rows = max(1, pairs_per_call(history.device) // len(negatives.destinations))
    with disabled(), torch.no_grad():
        for part in events.split(rows):
            batch = EventBatch.of(history, part)
            candidates, true = negatives.candidates(part)
            each = candidates.expand(len(part), -1)
            logits = model.link(state, history, batch.src, each, batch.t, batch.t[0])
            ranks(logits, torch.searchsorted(candidates, batch.dst), ~true)


# -- at which time candidates are embedded --------------------------------------------------------


class MixedRanker(Ranker):
    """Embeds sources at their events' times, but candidates at the time of the batch's first event."""

    def _logits(self, batch: EventBatch, candidates: Tensor) -> Tensor:
        nodes, first = torch.cat([batch.src, candidates]), batch.t[0]
        times = torch.cat([batch.t, first.expand(len(candidates))])
        embedded = self.model.embed(self.state, self.history, nodes, times, first)
        return self.model.score_all(embedded[: len(batch.src)], embedded[len(batch.src) :])


@dataclass(frozen=True)
class Trained:
    """A trained model and its state just before the test events."""

    label: str
    model: Model
    state: NodeState
    history: History
    stream: EventStream
    test: NDArray[np.int64]
    batch_size: int

    @classmethod
    def from_run(cls, run: Run) -> Trained:
        train, device = run.config.train, run.history.device
        split = train.split_stream(run.stream)
        state = NodeState(run.model.blank(), run.stream.num_nodes, device)
        run.folder.restore("best.pt", None, state, len(run.stream))
        size, label = train.batch_size, f"{run.config.model} ({run.path.name})"
        return cls(label, run.model, state, run.history, run.stream, split.test, size)

    @classmethod
    def from_bench(cls, bench: Bench) -> Trained:
        """Train contig for one epoch."""
        session = Session(bench.data, run_config("contig", bench.settings, compile="off"))
        training, test = TrainingSteps(session), bench.data.split.test
        training.rewind()
        training.advance(len(session.steps))
        state = state_before(bench, session.model, test)
        size = bench.settings.batch_size
        return cls("contig", session.model, state, bench.data.history, bench.stream, test, size)


def measure_ranking_times(bench: Bench) -> Iterator[Measurement]:
    """Compare cost and MRR of embedding candidates at each event's time and at the batch's first.

    Uses the trained runs of the settings; without any, contig is trained for an epoch.
    """
    count = bench.settings.ranked or RANKED_BY_TIME[bench.device.type]
    runs = [Run.open(path, bench.device) for path in bench.settings.runs]
    for trained in [Trained.from_run(run) for run in runs] or [Trained.from_bench(bench)]:
        yield from _compare_times(bench, trained, trained.test[:count])


def _compare_times(bench: Bench, trained: Trained, events: NDArray[np.int64]) -> Iterator[Measurement]:
    state = trained.state
    start = state.clone().snapshot()
    negatives = Negatives(trained.stream, events=events, device=trained.history.device)
    shared = trained.model, state, trained.history, trained.batch_size, negatives
    rankers = {
        "event": Ranker(*shared, "event"),
        "all at the time of the batch's first event": Ranker(*shared, "batch"),
    }
    if trained.model.learns:
        rankers["only candidates at the time of the batch's first event"] = MixedRanker(*shared, "event")
    mrr: dict[str, float] = {}

    def rank(name: str) -> None:
        state.restore(start)
        mrr[name] = rank_metrics(rankers[name](events)).mrr

    works = [partial(rank, name) for name in rankers]
    own, *others = alternate(works, bench.few_repeats, bench.device)
    what = f"rank {len(events):,} test events at each event's time, {trained.label}"
    for peer, theirs in zip(list(rankers)[1:], others, strict=True):
        note = f"MRR {100 * mrr['event']:.2f}%, the peer's {100 * mrr[peer]:.2f}%"
        yield Measurement.compare("ranking-times", what, own, peer, theirs, note=note)
