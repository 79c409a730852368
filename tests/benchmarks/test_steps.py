"""The two sides of a step do the same work."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

from contig.benchmarks.bench import Bench
from contig.benchmarks.steps import ScoringSteps, TrainingSteps
from contig.kernels.dispatch import backend, disabled

CPU = torch.device("cpu")


def test_the_plain_step_is_the_same_computation(bench: Bench) -> None:
    session = bench.session("contig")
    training = TrainingSteps(session)
    training.rewind()
    training.advance(6)
    assert training.overhead > 0
    session.model.eval()  # no dropout, which the two would draw differently
    results = []
    for context in (nullcontext, disabled):
        with context():
            loss = session.walker._read_batch(6)
            weight = session.model.get_parameter("ode.gates.weight")
            results.append((loss.detach(), *torch.autograd.grad(loss, [weight])))
    assert torch.allclose(results[0][0], results[1][0], rtol=1e-5)
    assert torch.allclose(results[0][1], results[1][1], atol=1e-6)
    assert results[0][1].abs().sum() > 0


def test_plain_steps_use_torch_operations_only(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for plain in (False, True):
        session, backends = bench.session("contig", plain=plain), list[str]()
        monkeypatch.setattr(
            session, "train_step", lambda backends=backends: backends.append(backend(CPU)), raising=True
        )
        TrainingSteps(session, plain=plain).advance(2)
        assert backends == ["torch" if plain else "numba"] * 2
        assert session.walker.captured.capturable is not plain
    assert backend(CPU) == "numba"


def test_blocks_of_scoring_add_up_to_the_whole_pass(bench: Bench) -> None:
    session = bench.session("contig")
    whole, blocks = ScoringSteps(session, 9), ScoringSteps(session, 9)
    whole.advance(9)
    blocks.advance(2)
    blocks.rewind()
    for steps in (4, 5):
        blocks.advance(steps)
    assert torch.equal(whole.state["last"], blocks.state["last"])
    assert torch.allclose(whole.state["h"], blocks.state["h"], atol=1e-5)
    assert whole.state["h"].abs().sum() > 0
