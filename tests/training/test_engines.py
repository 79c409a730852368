"""Each engine takes the steps of the plain code, with the same numbers: step by step through an epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, NamedTuple

import pytest
import torch
from problems import random_stream

from contig.events import EventStream
from contig.experiments.benchmarks.steps import plainly
from contig.models import model_class
from contig.training.config import RunConfig
from contig.training.session import Data, Session

SMALL = {"dim": 20, "time_dim": 14, "neighbors": 4}


class Apart(NamedTuple):
    """How far two steps from one place lead apart: all relative, but the loss."""

    loss: float
    gradient: float
    states: float


def sessions(
    stream: EventStream, model: str, device: str, engine: str, **settings: Any
) -> tuple[Session, Session]:
    """A training with its engine, ``compiled``, ``captured`` or ``hosted``, and one without any."""
    made = []
    known = {field.name for field in fields(model_class(model).options)} | {"batch_size"}
    chosen = {name: value for name, value in {**settings, "dropout": 0.0}.items() if name in known}
    compile, graph_in = "on" if engine == "compiled" else "off", "host" if engine == "hosted" else "device"
    for how in ({"compile": compile, "graph_in": graph_in}, {"compile": "off"}):
        config = RunConfig.of(model, chosen | how)
        made.append(Session(Data.prepare(stream, config, torch.device(device)), config))
    made[1]._step.capturable = False
    return made[0], made[1]


def side_by_side(fast: Session, plain: Session) -> Iterator[Apart]:
    """Every step of an epoch, both from where the plain one has come to.

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
        with plainly():
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


@pytest.mark.parametrize("model", ["contig", "tgn", "jodie", "dyrep", "tgat"])
def test_compiled_loops_take_the_steps_of_torch_operations(
    model: str, real_stream: Callable[[str], EventStream]
) -> None:
    fast, plain = sessions(real_stream("collegemsg"), model, "cpu", "loops", **SMALL)
    if model == "tgat":  # it has no states to compare
        fast.state.rows["h"] = plain.state.rows["h"] = torch.ones(1)
    check(list(side_by_side(fast, plain)), len(plain.steps), Apart(2e-6, 2e-4, 1e-5))


@pytest.mark.gpu
@pytest.mark.parametrize("engine", ["compiled", "captured", "hosted"])
@pytest.mark.parametrize("model", ["contig", "tgn"])
def test_on_a_gpu_an_epoch_of_a_real_stream(
    model: str, engine: str, real_stream: Callable[[str], EventStream]
) -> None:
    check_on_a_gpu(real_stream("wikipedia"), model, engine, neighbors=15)


@pytest.mark.gpu
@pytest.mark.parametrize("engine", ["compiled", "captured", "hosted"])
def test_on_a_gpu_with_features_and_all_nodes_coupled(engine: str) -> None:
    stream = random_stream(7, events=900, num_nodes=60, edge_width=2)
    check_on_a_gpu(stream, "contig", engine, batch_size=20, scope="all", **SMALL)


def check_on_a_gpu(stream: EventStream, model: str, engine: str, **settings: Any) -> None:
    rounded = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False  # what is compared is the engine
    try:
        fast, plain = sessions(stream, model, "cuda", engine, **settings)
        found = list(side_by_side(fast, plain))
    finally:
        torch.backends.cuda.matmul.allow_tf32 = rounded
    assert fast._step.graph is not None
    assert fast.state.on_host == fast.data.training.on_host == (engine == "hosted")
    assert (fast._loss._fast is not None) is (engine == "compiled")  # it did not fall back
    check(found, len(plain.steps), Apart(2e-6, 1e-3, 1e-3))
