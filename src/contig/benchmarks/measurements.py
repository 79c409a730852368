"""The measurements by name, and the run that takes them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import mean
from typing import Any, Literal

import numpy as np
import torch

from contig.benchmarks import lookups, peers
from contig.benchmarks import processes as children
from contig.benchmarks.solvers import Problem
from contig.benchmarks.steps import Scoring, Training
from contig.benchmarks.timing import (
    Measurement,
    MissingPeer,
    in_turns,
    load,
    processor,
    race,
    seconds,
    versions,
)
from contig.data.events import EventStream
from contig.data.negatives import Negatives
from contig.errors import ConfigError, unknown
from contig.kernels.devices import hardware, pick_device
from contig.kernels.dispatch import disabled
from contig.models import EventBatch
from contig.models.contract import at_once
from contig.options import as_dict, option
from contig.runs.config import RunConfig
from contig.streaming.packing import count_nodes_read
from contig.streaming.prepared import PreparedStream
from contig.streaming.schedule import schedule
from contig.tasks.recommend import Ranker, ranks
from contig.training.memory_usage import peak_memory, reset_peak
from contig.training.preparation import prepare
from contig.training.session import Session

log = logging.getLogger("contig")

FLOAT, INT = 4, 8  # bytes of a number, of an id or a time


@dataclass(frozen=True)
class Settings:
    """What both sides of every measurement share."""

    neighbors: int = option(10, "past events attended to (k)", low=1)
    dim: int = option(172, "width of states, embeddings and time encodings", low=2)
    batch_size: int = option(200, "events of a step", low=1)
    first: int = option(200, "the steps before this one are the warm-up", low=0)
    last: int = option(400, "the steps from first to here are timed", low=1)
    repeats: int = option(10, "blocks of steps, or rounds, that a median is taken over", low=1)
    compile: Literal["auto", "on", "off"] = option("auto", "as in training: fuse the step's kernels on a GPU")
    pairs: int = option(2000, "pairs whose ODE is solved", low=1)
    ranked: int = option(0, "test events to rank; 0 is all of them on a GPU and 40 on a CPU", low=0)
    copied: int = option(2**28, "bytes copied to measure the memory's bandwidth", low=1)


QUICK: dict[str, Any] = {
    **{"neighbors": 5, "dim": 16, "batch_size": 40, "first": 4, "last": 12, "repeats": 2},
    **{"compile": "off", "pairs": 50, "ranked": 10, "copied": 2**22},
}
QUICK_DATA = "synthetic:2000"


class Bench:
    """A stream and the settings, with what several measurements use made once."""

    def __init__(self, stream: EventStream, settings: Settings, device: str = "auto") -> None:
        # Without features: the peers differ in where these enter, and reading them is not what is measured.
        self.stream = replace(stream, edge_features=None, node_features=None)
        self.device = pick_device(device)
        self.settings = self._within_an_epoch(settings)
        self._sessions: dict[tuple[str, bool], Session] = {}

    def _within_an_epoch(self, settings: Settings) -> Settings:
        """Streams whose epochs are shorter than the steps that are timed by default: their later half."""
        whole = len(self._data(settings).split.train) // settings.batch_size
        if settings.last <= whole:
            return settings
        if (settings.first, settings.last) != (Settings.first, Settings.last) or whole < 2:
            raise ConfigError(
                f"steps {settings.first}:{settings.last}: an epoch of {self.stream.origin} has {whole} whole "
                f"batches of {settings.batch_size}; give --steps that lie within, or a smaller --batch-size."
            )
        return replace(settings, first=whole // 2, last=whole)

    def _data(self, settings: Settings) -> PreparedStream:
        return prepare(self.stream, self.config("contig", settings), self.device)

    @cached_property
    def data(self) -> PreparedStream:
        return self._data(self.settings)

    def config(self, model: str, settings: Settings, **more: Any) -> RunConfig:
        s = settings
        widths = {"dim": s.dim, "time_dim": s.dim, "neighbors": s.neighbors, "batch_size": s.batch_size}
        return RunConfig.of(model, {**widths, "compile": s.compile, **more})

    def session(self, model: str, *, plain: bool = False) -> Session:
        """A training of ``model``; made once, so that its step is compiled once."""
        if (model, plain) not in self._sessions:
            config = self.config(model, replace(self.settings, compile="off") if plain else self.settings)
            self._sessions[model, plain] = Session(self.data, config)
        return self._sessions[model, plain]

    def peer(self, *, learn: bool = True) -> peers.PeerWalker:
        """PyTorch Geometric's TGN on the training events, or scoring from the stream's first event on."""
        s, split = self.settings, self.data.split
        at = split.train if learn else np.arange(len(self.stream))
        known = np.unique(self.stream.dst[at])
        events = peers.Events.of(self.stream, at, self.device)
        widths = {"dim": s.dim, "neighbors": s.neighbors, "batch_size": s.batch_size}
        return peers.PeerWalker(events, self.stream.num_nodes, known, **widths, learn=learn)

    def race(self, *walkers: Any, during: Sequence[Any] = (nullcontext, nullcontext)) -> list[list[float]]:
        s = self.settings
        return race(walkers, s.first, s.last, s.repeats, self.device, during)

    @property
    def few(self) -> int:
        """Repeats of what takes long."""
        return min(3, self.settings.repeats)

    def about(self) -> dict[str, Any]:
        """What the figures were taken on and with."""
        return {
            "data": str(self.stream.origin),
            "events": len(self.stream),
            "nodes": self.stream.num_nodes,
            "device": self.device.type,
            "hardware": hardware(self.device),
            "cpu": f"{processor()}, {torch.get_num_threads()} threads",
            "load": load(),
            "versions": dict(versions()),
            "settings": as_dict(self.settings),
        }


Rows = Iterator[Measurement]


# -- steps ----------------------------------------------------------------------------------------------


def _step(model: str, bench: Bench) -> Rows:
    name, what = f"{model}-step", f"training step, {model}"
    peer = bench.peer()
    ours, theirs = bench.race(Training(bench.session(model)), peer)
    note = f"{bench.settings.batch_size / float(np.median(ours)):,.0f} events/s"
    yield Measurement.of(name, what, ours, peers.NAME, theirs, note=note)


def _plain(model: str, bench: Bench) -> Rows:
    plain = Training(bench.session(model, plain=True), plain=True)
    ours, theirs = bench.race(Training(bench.session(model)), plain, during=(nullcontext, disabled))
    told = "ours without capture, compiling and packed nodes" if bench.device.type == "cuda" else ""
    told = told or "ours with torch operations alone"
    yield Measurement.of(f"{model}-plain", f"training step, {model}", ours, told, theirs)


def epoch(bench: Bench) -> Rows:
    """All of an epoch, the negatives and the last, shorter batch included."""
    session, peer = bench.session("contig"), bench.peer()
    walkers = (Training(session), peer)
    bench.race(*walkers)  # the warm-up

    def ours() -> None:
        session.begin_epoch()
        walkers[0].advance(len(session.steps))

    def theirs() -> None:
        peer.rewind()
        peer.advance(len(session.steps))

    what = f"an epoch of {len(bench.data.split.train):,} events, contig"
    times = [[seconds(work, bench.device)] for work in (ours, theirs)]
    yield Measurement.of("epoch", what, times[0], peers.NAME, times[1])


def host(bench: Bench) -> Rows:
    """What it costs to leave states and history in the host's memory."""
    if bench.device.type == "cpu":
        yield Measurement("host", "not measured", note="on a CPU they always are")
        return
    config = bench.config("contig", bench.settings, graph_in="host")
    there = Training(Session(prepare(bench.stream, config, bench.device), config))
    ours, theirs = bench.race(there, Training(bench.session("contig")))
    what = "training step, contig, graph in the host's memory"
    yield Measurement.of("host", what, ours, "ours, graph on the GPU", theirs)


def scoring(bench: Bench) -> Rows:
    """Score and observe, without gradients."""
    peer = bench.peer(learn=False)
    ours, theirs = bench.race(Scoring(bench.session("contig"), bench.settings.last), peer)
    note = f"{bench.settings.batch_size / float(np.median(ours)):,.0f} events/s"
    what = "score and observe a batch, contig"
    yield Measurement.of("scoring", what, ours, f"{peers.NAME}, evaluating", theirs, note=note)


# -- ranking --------------------------------------------------------------------------------------------


def ranking(bench: Bench) -> Rows:
    """Seconds for all test events against all destinations."""
    session, history = bench.session("contig"), bench.data.history
    model, test, size = session.model, bench.data.split.test, bench.settings.batch_size
    events = test[: bench.settings.ranked or (len(test) if bench.device.type == "cuda" else 40)]
    sample = test[: max(1, min(len(events) // 2, 2 * size))]
    negatives = Negatives(bench.stream, events=test, device=bench.device)
    state = model.new_state(bench.stream.num_nodes)
    ranker = Ranker(model, state, history, size, negatives)
    with torch.no_grad():
        model.eval()
        for step in schedule(bench.stream.t[: int(test[0])], size):
            at = torch.arange(step.observe_from, step.observe_to, device=bench.device)
            model.observe(state, history, EventBatch.of(history, at))
    before = state.clone().snapshot()  # apart from the state that is walked on

    def ours() -> None:
        state.restore(before)
        ranker(events)

    def pairwise() -> None:
        state.restore(before)
        rows = max(1, at_once(bench.device) // len(negatives.destinations))
        with disabled(), torch.no_grad():
            for part in torch.from_numpy(sample).to(bench.device).split(rows):
                batch = EventBatch.of(history, part)
                candidates, true = negatives.candidates(part)
                each = candidates.expand(len(part), -1)
                logits = model.link(state, history, batch.src, each, batch.t, batch.t[0])
                ranks(logits, torch.searchsorted(candidates, batch.dst), ~true)

    own, theirs = in_turns(ours, pairwise, bench.few, bench.device)
    own, theirs = (
        [x * len(test) / n for x in some] for some, n in ((own, len(events)), (theirs, len(sample)))
    )
    told = "" if len(events) == len(test) else f"; ours from the first {len(events):,}"
    yield Measurement.of(
        "ranking",
        f"rank all {len(test):,} test events among {len(negatives.destinations):,} destinations",
        own,
        "each pair by model.link, torch operations alone",
        theirs,
        note=f"{len(test) / float(np.median(own)):,.0f} events/s; the peer's extrapolated from the first "
        f"{len(sample):,} events{told}",
    )


# -- parts ----------------------------------------------------------------------------------------------


def lookup(bench: Bench) -> Rows:
    """The last neighbours of every batch's nodes, over the whole stream."""
    s, stream = bench.settings, bench.stream
    parts = lookups.batches(stream, s.batch_size, bench.device)
    history = bench.data.history

    def ours() -> None:
        lookups.run_history(history, parts, s.neighbors, append=False)

    def peer() -> None:
        lookups.run_loader(stream, parts, s.neighbors)

    own, theirs = in_turns(ours, peer, bench.few, bench.device)
    told = "PyG's LastNeighborLoader, query and insert"
    yield Measurement.of("lookup", "look up the neighbours of all batches", own, told, theirs)


def ode(bench: Bench) -> Rows:
    """The series, forwards and backwards, against two solvers of torchdiffeq."""
    problem = Problem(bench.settings.pairs, bench.settings.dim, bench.device)
    precise = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False  # the error is the solver's, not that of the gates
    try:
        steps = problem.fair_rk4_steps()
        solvers = {
            "torchdiffeq dopri5, 1e-5": problem.dopri5,
            f"torchdiffeq rk4, {steps} steps": lambda: problem.rk4(steps),
        }
        mine = problem.error(problem.series)
        for told, solve in solvers.items():
            run = problem.there_and_back(problem.series), problem.there_and_back(solve)
            own, theirs = in_turns(*run, bench.settings.repeats, bench.device)
            note = f"largest error {mine:.1e}, the peer's {problem.error(solve):.1e}"
            what = f"gated ODE of {problem.pairs:,} pairs, there and back"
            yield Measurement.of("ode", what, own, told, theirs, note=note)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = precise


def startup(bench: Bench) -> Rows:
    """Fresh interpreters."""
    pairs = (
        ("import contig", ("-c", "import contig"), "import torch", ("-c", "import torch")),
        ("contig --help", ("-m", "contig", "--help"), "python -c pass", ("-c", "pass")),
    )
    for what, ours, told, peer in pairs:
        calls = children.run_python(*ours), children.run_python(*peer)
        own, theirs = in_turns(*calls, bench.few, torch.device("cpu"))
        yield Measurement.of("startup", what, own, told, theirs)


# -- memory and its floor -------------------------------------------------------------------------------


def peak_of_steps(stream: EventStream, settings: Settings, device: str, model: str | None) -> int:
    """Peak bytes of training ``model``, or the peer for None, up to step ``last``; for a process alone."""
    bench = Bench(stream, settings, device)
    assert bench.data  # shared by both sides, on a GPU a part of what is counted
    reset_peak(bench.device)
    walker: Any = bench.peer() if model is None else Training(bench.session(model))
    walker.rewind()
    walker.advance(bench.settings.last)
    return int(peak_memory(bench.device).bytes or 0)


def memory(bench: Bench) -> Rows:
    """The peak of a training, each side in a process of its own."""
    given = bench.stream, bench.settings, str(bench.device)
    theirs = float(children.alone(peak_of_steps, *given, None))
    for model in ("contig", "tgn"):
        own = float(children.alone(peak_of_steps, *given, model))
        yield Measurement.of(
            *("memory", f"peak memory of training, {model}", [own], peers.NAME, [theirs]),
            unit="bytes",
            note=f"of {peak_memory(bench.device).of}",
        )


def least_bytes(
    *, distinct: float, written: float, queries: int, neighbors: int, dim: int, weights: int
) -> float:
    """What a training step must at least move to and from memory, were everything else kept on the chip.

    The states and latest events of the distinct nodes it asks about are read, those of the events' own
    nodes written; node and time of every query's neighbours are read; a weight is read and written, its
    gradient and both of Adam's moments as well. Activations count nothing.
    """
    states = (distinct + written) * (dim * FLOAT + INT)
    index = queries * neighbors * 2 * INT
    return states + index + weights * 8 * FLOAT


def bandwidth(size: int, repeats: int, device: torch.device) -> float:
    """Bytes a second, read and written, of a large copy on the device."""
    source = torch.zeros(size // FLOAT, device=device)
    target = torch.empty_like(source)
    target.copy_(source)
    return (
        2 * size / float(np.median([seconds(lambda: target.copy_(source), device) for _ in range(repeats)]))
    )


def roofline(bench: Bench) -> Rows:
    """How far a step is from what the memory's bandwidth alone would allow."""
    s, train, history = bench.settings, bench.data.split.train, bench.data.training
    speed = bandwidth(s.copied * (16 if bench.device.type == "cuda" else 1), s.repeats, bench.device)
    at = train[s.first * s.batch_size : s.last * s.batch_size]
    written = [
        len(np.unique([bench.stream.src[part], bench.stream.dst[part]]))
        for part in at.reshape(-1, s.batch_size)
    ]
    events = torch.from_numpy(at).to(bench.device)
    for model in ("contig", "tgn"):
        session = bench.session(model)
        negative = session.negatives.draw(events, history.events["src"][events])
        trained: Any = session.model
        least = least_bytes(
            distinct=float(count_nodes_read(trained, history, events, negative, s.batch_size).mean()),
            written=mean(written),
            queries=3 * s.batch_size,
            neighbors=s.neighbors,
            dim=s.dim,
            weights=sum(p.numel() for p in session.model.parameters()),
        )
        (ours,) = bench.race(Training(session), during=(nullcontext,))
        floor = [least / speed] * len(ours)
        told = f"the least it moves, {least / 1e6:.1f} MB, at the {speed / 1e9:,.0f} GB/s of a copy"
        yield Measurement.of("roofline", f"training step, {model}", ours, told, floor)


# -- all of them ----------------------------------------------------------------------------------------

MEASUREMENTS: dict[str, Callable[[Bench], Rows]] = {
    "contig-step": lambda bench: _step("contig", bench),
    "tgn-step": lambda bench: _step("tgn", bench),
    "contig-plain": lambda bench: _plain("contig", bench),
    "tgn-plain": lambda bench: _plain("tgn", bench),
    "epoch": epoch,
    "host": host,
    "scoring": scoring,
    "ranking": ranking,
    "lookup": lookup,
    "ode": ode,
    "startup": startup,
    "memory": memory,
    "roofline": roofline,
}


def chosen(only: str | None) -> list[str]:
    """The measurements that a list with commas names, in their own order; all of them for None."""
    if only is None:
        return list(MEASUREMENTS)
    asked = [name.strip() for name in only.split(",") if name.strip()]
    for name in asked:
        if name not in MEASUREMENTS:
            raise ConfigError(unknown("measurement", name, MEASUREMENTS))
    if not asked:
        raise ConfigError(f"--only names no measurement; there are {', '.join(MEASUREMENTS)}.")
    return [name for name in MEASUREMENTS if name in asked]


def measure(bench: Bench, name: str) -> list[Measurement]:
    """The rows of one measurement; one that says why, where a peer is not installed or the device gave up."""
    try:
        return list(MEASUREMENTS[name](bench))
    except MissingPeer as missing:
        return [Measurement(name, "not measured", note=str(missing))]
    except RuntimeError as error:  # out of memory, say: what else was measured must not be lost
        log.warning("%s failed: %s", name, error)
        return [Measurement(name, "failed", note=str(error).strip().partition("\n")[0])]
