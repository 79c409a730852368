"""Every engine takes the steps of plain torch operations, with the same numbers, through an epoch.

An engine is one way to run a step: compiled loops on a CPU, and on a GPU compiled, captured or with the graph
in pinned memory.

A gradient jumps where the input of a ReLU is zero. Of the millions of inputs in an epoch a few are so close
to zero that rounding decides, and then the gradient differs by up to a thousandth. Most tests therefore use a
smooth function in its place; one test shows that nothing else was hidden by that.

Sums in another order differ by about 1e-7 of their largest terms. In losses and states nothing cancels. In a
gradient, positives and negatives cancel to as little as a hundredth of their terms: 6e-5 of its norm was
observed, and 3e-4 is allowed on any CPU.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from support.gpu_branches import StepsByTensor, pack_as_on_a_gpu
from support.problems import random_stream, with_events
from torch import Tensor, nn
from torch.nn.functional import silu

from contig.data.events import EventStream
from contig.kernels.dispatch import disabled
from contig.models import model_class
from contig.models.state import Room
from contig.runs.config import RunConfig
from contig.runs.options import TrainOptions
from contig.streaming.packing import Rooms
from contig.training.preparation import prepare
from contig.training.session import Session

SMALL = {"dim": 20, "time_dim": 14, "neighbors": 4}
EVENTS = 10_000  # of a real stream: an epoch of about 30 steps


@pytest.fixture
def smooth(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace ReLU by a function without a kink."""
    monkeypatch.setattr(torch, "relu", silu)
    monkeypatch.setattr(nn.ReLU, "forward", lambda self, x: silu(x))


class Difference(NamedTuple):
    """How much two steps from the same place differ; all but the loss are relative."""

    loss: float
    gradient: float
    states: float


def first_events(stream: EventStream) -> EventStream:
    return with_events(stream, np.arange(EVENTS))


def sessions(
    stream: EventStream, model: str, device: str, engine: str, **settings: Any
) -> tuple[Session, Session]:
    """Two sessions: one with the engine ``compiled``, ``captured``, ``pinned`` or ``loops``, one without."""
    pair = []
    known = {field.name for field in (*fields(model_class(model).options), *fields(TrainOptions))}
    chosen = {name: value for name, value in {**settings, "dropout": 0.0}.items() if name in known}
    compile, graph_in = "on" if engine == "compiled" else "off", "host" if engine == "pinned" else "device"
    for engine_settings in ({"compile": compile, "graph_in": graph_in}, {"compile": "off"}):
        config = RunConfig.of(model, chosen | engine_settings)
        pair.append(Session(prepare(stream, config, torch.device(device)), config))
    pair[1].walker.captured.capturable = False
    return pair[0], pair[1]


def in_parallel(fast: Session, plain: Session) -> Iterator[Difference]:
    """Take every step of an epoch with both sessions, each time from the weights and states of the plain one.

    Otherwise they would drift apart: rounding in the weights shows in the loss after a few dozen steps.
    """
    assert fast.optimizer is not None
    assert plain.optimizer is not None
    fast.begin_epoch()
    plain.begin_epoch()
    for _ in fast.steps:
        for name in ("vector", "mean", "square", "count"):
            getattr(fast.optimizer, name).copy_(getattr(plain.optimizer, name))
        for name, rows in plain.state.rows.items():
            fast.state[name].copy_(rows)
        before = plain.optimizer.mean.clone()
        loss = fast.train_step()
        with disabled():
            expected = plain.train_step()
        fast_gradient, plain_gradient = (s.optimizer.mean - 0.9 * before for s in (fast, plain))  # type: ignore[union-attr]
        for name, rows in plain.state.rows.items():
            if not rows.is_floating_point():
                assert torch.equal(fast.state[name], rows)
        yield Difference(
            float((loss - expected).abs()),
            float((fast_gradient - plain_gradient).norm() / plain_gradient.norm()),
            states_apart(fast, plain),
        )


def states_apart(fast: Session, plain: Session) -> float:
    """The largest relative difference of states in floating point; 0 if there are none."""
    rows = [(fast.state[name], x) for name, x in plain.state.rows.items() if x.is_floating_point()]
    return max((float((ours - x).norm() / x.norm().clamp(min=1e-9)) for ours, x in rows), default=0.0)


def check(found: list[Difference], steps: int, allowed: Difference) -> None:
    worst = Difference(*(max(column) for column in zip(*found, strict=True)))
    assert len(found) == steps
    assert all(value < limit for value, limit in zip(worst, allowed, strict=True)), worst


@pytest.mark.usefixtures("smooth")
@pytest.mark.parametrize("model", ["contig", "tgn", "jodie", "dyrep", "tgat"])
def test_compiled_loops_take_the_steps_of_torch_operations(
    model: str, real_stream: Callable[[str], EventStream]
) -> None:
    fast, plain = sessions(first_events(real_stream("collegemsg")), model, "cpu", "loops", **SMALL)
    check(list(in_parallel(fast, plain)), len(plain.steps), Difference(2e-6, 3e-4, 1e-5))


@pytest.mark.parametrize("model", ["contig", "tgn"])
def test_gradients_differ_only_where_a_relu_is_at_its_kink(
    model: str, real_stream: Callable[[str], EventStream], monkeypatch: pytest.MonkeyPatch
) -> None:
    active: list[Tensor] = []
    relu = torch.relu

    def watched(x: Tensor) -> Tensor:
        active.append(x.detach().flatten() > 0)
        return relu(x)

    monkeypatch.setattr(torch, "relu", watched)
    fast, plain = sessions(first_events(real_stream("collegemsg")), model, "cpu", "loops", **SMALL)
    same_units = 0
    for difference in in_parallel(fast, plain):
        assert len(active) % 2 == 0
        ours, theirs = torch.cat(active).chunk(2)
        active.clear()
        if torch.equal(ours, theirs):
            assert difference.gradient < 3e-4
            same_units += 1
    assert same_units > 0.9 * len(plain.steps)


@pytest.mark.usefixtures("smooth")
@pytest.mark.parametrize(
    ("model", "settings", "nodes", "follows"),
    [
        ("contig", {}, 900, True),
        ("contig", {"namers": 3}, 900, True),
        ("contig", {"met_pairs": 0.5}, 900, True),
        ("contig", {"negatives": 3, "historical": 1}, 900, True),
        ("contig-pair", {"tokens": 3, "width": 8, "evidence_dropout": 0.0}, 900, True),
        ("contig", {"without": "transform"}, 150, True),
        ("contig", {"hops": 2}, 900, False),
        ("contig", {"scope": "pair"}, 900, False),
        ("tgn", {}, 900, False),
        ("tgn", {"met_pairs": 0.5}, 900, False),
    ],
)
def test_steps_with_packed_nodes_are_those_of_their_distinct_nodes(
    model: str, settings: dict[str, Any], nodes: int, follows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = pack_as_on_a_gpu(monkeypatch)
    stream = random_stream(7, events=900, num_nodes=nodes, edge_width=2)
    fast, plain = sessions(stream, model, "cpu", "loops", batch_size=20, **SMALL, **settings)
    steps = StepsByTensor(fast.walker)
    allowed = Difference(2e-6, 3e-4, 1e-5)
    check(list(in_parallel(fast, plain)), len(plain.steps), allowed)
    assert fast.walker._rooms is not None
    (read, linked), (none, observed) = fast.walker._rooms
    assert none is None
    assert used == ({read, linked, observed} if follows else {read})
    assert linked is None or not follows or linked >= read  # or all nodes would not fit
    regular, steps.count = steps.count, 0
    assert fast.walker._counts is not None
    small = int(np.median(fast.walker._counts.read))  # too small for about half of the batches
    fast.walker._rooms = Rooms(Room(small, linked), Room(None, observed))
    check(list(in_parallel(fast, plain)), len(plain.steps), allowed)
    assert 0 < steps.count < regular


def test_a_resumed_epoch_packs_its_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are counted as in a whole epoch, although the state knows half of the events."""
    used = pack_as_on_a_gpu(monkeypatch)
    stream = random_stream(7, events=900, num_nodes=900, edge_width=2)
    whole, other = sessions(stream, "contig", "cpu", "loops", batch_size=20, **SMALL)
    whole.begin_epoch()
    half = len(whole.steps) // 2
    for _ in range(half):
        whole.train_step()
    other.restore(copy.deepcopy(whole.snapshot()))
    counts = whole.walker._counts, other.walker._counts
    assert counts[0] is not None
    assert counts[1] is not None
    for expected, found in zip(*counts, strict=True):
        np.testing.assert_array_equal(found, expected)
    steps = StepsByTensor(other.walker)
    losses = [[float(s.train_step()) for _ in range(half, len(s.steps))] for s in (whole, other)]
    assert losses[1] == pytest.approx(losses[0], abs=1e-4)
    assert steps.count > 5
    assert len(used) == 3


@pytest.mark.gpu
@pytest.mark.usefixtures("smooth")
@pytest.mark.parametrize("engine", ["compiled", "captured", "pinned"])
@pytest.mark.parametrize("model", ["contig", "tgn"])
def test_an_epoch_on_a_gpu(model: str, engine: str, real_stream: Callable[[str], EventStream]) -> None:
    check_on_a_gpu(real_stream("wikipedia"), model, engine, Difference(2e-6, 1e-4, 1e-3), neighbors=15)


@pytest.mark.gpu
@pytest.mark.parametrize("engine", ["compiled", "captured", "pinned"])
def test_two_epochs_on_a_gpu_with_features_and_all_nodes_coupled(engine: str) -> None:
    """A recorded step must find the negatives of the second epoch."""
    stream = random_stream(7, events=900, num_nodes=60, edge_width=2)
    allowed = Difference(2e-6, 1e-3, 1e-3)
    check_on_a_gpu(stream, "contig", engine, allowed, epochs=2, batch_size=20, scope="all", **SMALL)


@pytest.mark.gpu
@pytest.mark.usefixtures("smooth")
@pytest.mark.parametrize("engine", ["compiled", "captured", "pinned"])
@pytest.mark.parametrize("model", ["graphmixer", "dygformer", "tpnet"])
def test_peers_on_a_gpu(model: str, engine: str) -> None:
    """Rounding grows in their many norms, more so in products of sketches, where large terms cancel."""
    stream = random_stream(7, events=900, num_nodes=60, edge_width=2)
    sizes = {**SMALL, "sequence": 8, "patch": 2, "channel_dim": 6, "sketch_dim": 40}
    allowed = Difference(1e-4, 1e-2, 1e-3)
    check_on_a_gpu(stream, model, engine, allowed, epochs=2, batch_size=20, **sizes)


def check_on_a_gpu(
    stream: EventStream, model: str, engine: str, allowed: Difference, epochs: int = 1, **settings: Any
) -> None:
    rounded = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False  # its rounding would hide the engine's
    try:
        fast, plain = sessions(stream, model, "cuda", engine, **settings)
        found = [difference for _ in range(epochs) for difference in in_parallel(fast, plain)]
    finally:
        torch.backends.cuda.matmul.allow_tf32 = rounded
    assert fast.walker.captured.graph is not None
    assert fast.state.on_host == fast.data.training.on_host == (engine == "pinned")
    assert (fast.walker.reading.compiled is not None) is (engine == "compiled")  # no fallback
    check(found, epochs * len(plain.steps), allowed)
