"""Each engine takes the steps of the plain code, with the same numbers: step by step through an epoch.

A gradient jumps where a ReLU's input is zero, and an epoch puts millions of numbers into them: now and then
one is so near to zero that its last digit decides, and the gradient differs by up to a thousandth. What is
compared here is the engine, so most tests have a smooth function in place of it; one shows that nothing but
those jumps is left out by that.

Sums in another order differ by about 1e-7 of their largest terms. Losses and states have none that cancel;
a gradient does where positives and negatives pull apart, and what is left of it may be a hundredth of its
terms. Hence 3e-4 of its norm on any CPU; seen were up to 6e-5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, NamedTuple

import pytest
import torch
from support.problems import random_stream
from torch import Tensor, nn
from torch.nn.functional import silu

from contig.data.events import EventStream
from contig.kernels.dispatch import disabled
from contig.models import model_class
from contig.runs.config import RunConfig
from contig.training.preparation import prepare
from contig.training.session import Session

SMALL = {"dim": 20, "time_dim": 14, "neighbors": 4}


@pytest.fixture
def smooth(monkeypatch: pytest.MonkeyPatch) -> None:
    """No function with a kink."""
    monkeypatch.setattr(torch, "relu", silu)
    monkeypatch.setattr(nn.ReLU, "forward", lambda self, x: silu(x))


class Apart(NamedTuple):
    """How far two steps from one place lead apart: all relative, but the loss."""

    loss: float
    gradient: float
    states: float


def sessions(
    stream: EventStream, model: str, device: str, engine: str, **settings: Any
) -> tuple[Session, Session]:
    """A training with its engine, ``compiled``, ``captured`` or ``pinned``, and one without any."""
    made = []
    known = {field.name for field in fields(model_class(model).options)} | {"batch_size"}
    chosen = {name: value for name, value in {**settings, "dropout": 0.0}.items() if name in known}
    compile, graph_in = "on" if engine == "compiled" else "off", "host" if engine == "pinned" else "device"
    for how in ({"compile": compile, "graph_in": graph_in}, {"compile": "off"}):
        config = RunConfig.of(model, chosen | how)
        made.append(Session(prepare(stream, config, torch.device(device)), config))
    made[1].walker.captured.capturable = False
    return made[0], made[1]


def in_parallel(fast: Session, plain: Session) -> Iterator[Apart]:
    """Every step of the next epoch, both from where the plain one has come to.

    Left to themselves they would drift apart: weights that differ in the last digit are told apart by the
    loss after a few dozen steps, whatever computes them.
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
        of_fast, of_plain = (s.optimizer.mean - 0.9 * before for s in (fast, plain))  # type: ignore[union-attr]
        for name, rows in plain.state.rows.items():
            if not rows.is_floating_point():
                assert torch.equal(fast.state[name], rows)
        yield Apart(
            float((loss - expected).abs()),
            float((of_fast - of_plain).norm() / of_plain.norm()),
            float((fast.state["h"] - plain.state["h"]).norm() / plain.state["h"].norm().clamp(min=1e-9)),
        )


def check(found: list[Apart], steps: int, allowed: Apart) -> None:
    worst = Apart(*(max(column) for column in zip(*found, strict=True)))
    print(worst)
    assert len(found) == steps
    assert all(apart < most for apart, most in zip(worst, allowed, strict=True)), worst


@pytest.mark.usefixtures("smooth")
@pytest.mark.parametrize("model", ["contig", "tgn", "jodie", "dyrep", "tgat"])
def test_compiled_loops_take_the_steps_of_torch_operations(
    model: str, real_stream: Callable[[str], EventStream]
) -> None:
    fast, plain = sessions(real_stream("collegemsg"), model, "cpu", "loops", **SMALL)
    if model == "tgat":  # it has no states to compare
        fast.state.rows["h"] = plain.state.rows["h"] = torch.ones(1)
    check(list(in_parallel(fast, plain)), len(plain.steps), Apart(2e-6, 3e-4, 1e-5))


@pytest.mark.parametrize("model", ["contig", "tgn"])
def test_only_a_relu_on_its_kink_tells_a_gradient_apart(
    model: str, real_stream: Callable[[str], EventStream], monkeypatch: pytest.MonkeyPatch
) -> None:
    open_units: list[Tensor] = []
    relu = torch.relu

    def watched(x: Tensor) -> Tensor:
        open_units.append(x.detach().flatten() > 0)
        return relu(x)

    monkeypatch.setattr(torch, "relu", watched)
    fast, plain = sessions(real_stream("collegemsg"), model, "cpu", "loops", **SMALL)
    alike = 0
    for apart in in_parallel(fast, plain):
        assert len(open_units) % 2 == 0
        ours, theirs = torch.cat(open_units).chunk(2)
        open_units.clear()
        if torch.equal(ours, theirs):
            assert apart.gradient < 3e-4
            alike += 1
    assert alike > 0.9 * len(plain.steps)


@pytest.mark.gpu
@pytest.mark.usefixtures("smooth")
@pytest.mark.parametrize("engine", ["compiled", "captured", "pinned"])
@pytest.mark.parametrize("model", ["contig", "tgn"])
def test_on_a_gpu_an_epoch_of_a_real_stream(
    model: str, engine: str, real_stream: Callable[[str], EventStream]
) -> None:
    check_on_a_gpu(real_stream("wikipedia"), model, engine, Apart(2e-6, 1e-4, 1e-3), neighbors=15)


@pytest.mark.gpu
@pytest.mark.parametrize("engine", ["compiled", "captured", "pinned"])
def test_on_a_gpu_two_epochs_with_features_and_all_nodes_coupled(engine: str) -> None:
    """The second has other negatives, where the recorded step finds them."""
    stream = random_stream(7, events=900, num_nodes=60, edge_width=2)
    allowed = Apart(2e-6, 1e-3, 1e-3)
    check_on_a_gpu(stream, "contig", engine, allowed, epochs=2, batch_size=20, scope="all", **SMALL)


def check_on_a_gpu(
    stream: EventStream, model: str, engine: str, allowed: Apart, epochs: int = 1, **settings: Any
) -> None:
    rounded = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False  # what is compared is the engine
    try:
        fast, plain = sessions(stream, model, "cuda", engine, **settings)
        found = [apart for _ in range(epochs) for apart in in_parallel(fast, plain)]
    finally:
        torch.backends.cuda.matmul.allow_tf32 = rounded
    assert fast.walker.captured.graph is not None
    assert fast.state.on_host == fast.data.training.on_host == (engine == "pinned")
    assert (fast.walker.reading.compiled is not None) is (engine == "compiled")  # it did not fall back
    check(found, epochs * len(plain.steps), allowed)
