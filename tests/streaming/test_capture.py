"""A captured step does what the eager one does: once per call, with the same numbers."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from support.problems import CASES, case, random_stream, shape_of
from torch import Tensor

from contig.history import History
from contig.streaming.capture import WARM_UP, Captured, Compiled
from contig.tasks.link_scoring import LinkScorer, NegativePairs


class Counter:
    """A step whose result shows every call before it: a repeated, missing or wrong number changes it."""

    def __init__(self, device: str) -> None:
        self.total = torch.zeros(1, dtype=torch.int64, device=device)
        self.calls = 0

    def __call__(self, number: int | Tensor) -> Tensor:
        self.calls += 1
        self.total *= 2
        self.total += number
        return self.total + number


def test_a_cpu_runs_every_batch_eagerly_and_once() -> None:
    counter, plain = Counter("cpu"), Counter("cpu")
    step = Captured(pytest.fail, counter, torch.device("cpu"))
    for call in range(2 * WARM_UP):
        assert torch.equal(step(call), plain(call))
        assert counter.calls == call + 1
    assert step.graph is None


@pytest.mark.parametrize("enabled", [True, False])
def test_a_function_that_cannot_be_compiled_runs_eagerly_with_one_warning(
    enabled: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Refused(Exception):
        """Stands in for the errors of torch's compiler, which takes long to import."""

    def refuse(*_: Any, **__: Any) -> Any:
        def compiled(*_: Tensor) -> Tensor:
            raise Refused("unsupported\ndetails")

        return compiled

    exceptions = SimpleNamespace(exc=SimpleNamespace(TorchDynamoException=Refused))
    monkeypatch.setattr(torch, "_dynamo", exceptions, raising=False)
    monkeypatch.setattr(torch, "compile", refuse)
    double = Compiled(lambda x: 2 * x, enabled)
    assert [int(double(torch.tensor(number))) for number in range(4)] == [0, 2, 4, 6]
    reason = "cannot be compiled and runs eagerly: unsupported"
    assert [record.getMessage().endswith(reason) for record in caplog.records] == [True] * enabled


@pytest.mark.gpu
@pytest.mark.parametrize("first", [0, 1, WARM_UP, WARM_UP + 1, 2 * WARM_UP])
def test_a_captured_step_equals_the_eager_one(first: int) -> None:
    """Warm-up, capture and replays, with irregular batches in between and numbers that start again."""
    counter, plain = Counter("cuda"), Counter("cuda")
    ran_eagerly: list[int] = []

    def eager(number: int) -> Tensor:
        ran_eagerly.append(number)
        return counter(number)

    step = Captured(counter, eager, torch.device("cuda"))
    numbers = [*range(first, first + 4 * WARM_UP), *range(3 * WARM_UP), 7, 7, 2]
    irregular = (1, WARM_UP, 2 * WARM_UP, 5 * WARM_UP)
    for call, number in enumerate(numbers):
        assert torch.equal(step(number, regular=call not in irregular), plain(number)), call
    assert step.graph is not None
    assert ran_eagerly == [numbers[call] for call in irregular]
    assert torch.equal(counter.total, plain.total)


@pytest.mark.gpu
def test_a_step_that_cannot_be_captured_runs_eagerly_with_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    total = torch.zeros(1, device="cuda")

    def waits(number: int | Tensor) -> Tensor:
        if float(number) >= 0:  # waits for the device, which a capture forbids
            total.add_(1)
        return total.clone()

    step = Captured(waits, waits, torch.device("cuda"))
    with caplog.at_level(logging.WARNING, logger="contig"):
        found = [float(step(number)) for number in range(3 * WARM_UP)]
    assert found == [float(i + 1) for i in range(3 * WARM_UP)]
    assert len(caplog.records) == 1
    assert "runs eagerly" in caplog.text


@pytest.mark.gpu
def test_random_numbers_continue_after_a_failed_capture() -> None:
    def drawn(capturable: bool) -> list[float]:
        def waits(number: int | Tensor) -> Tensor:
            random = torch.rand(1, device="cuda")
            float(number)  # waits for the device, which a capture forbids
            return random

        torch.manual_seed(5)
        step = Captured(waits, waits, torch.device("cuda"), capturable=capturable)
        return [float(step(number)) for number in range(3 * WARM_UP)]

    assert drawn(True) == drawn(False)


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_every_model_scores_alike_captured_eager_and_on_a_cpu(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = random_stream(3, events=80)
    negative = torch.tensor(np.random.default_rng(0).integers(0, stream.num_nodes, (80, 1)))

    def walk(device: str) -> tuple[Any, Any]:
        model = case(name, shape_of(stream)).to(device)
        history, state = History.from_stream(stream, device), model.new_state(stream.num_nodes)
        scorer = LinkScorer(model, state, history, 5)
        parts = [
            scorer(part, NegativePairs(negative[part].to(device)))
            for part in (np.arange(43), np.arange(43, 80))
        ]
        return np.hstack(parts), {k: v.cpu() for k, v in state.rows.items()}

    captured, on_cpu = walk("cuda"), walk("cpu")
    monkeypatch.setattr(Captured, "__call__", lambda self, number, regular: self.eager(number))
    plain = walk("cuda")
    np.testing.assert_allclose(captured[0], plain[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(captured[0], on_cpu[0], rtol=1e-3, atol=1e-4)
    for other in (plain, on_cpu):
        torch.testing.assert_close(captured[1], other[1], rtol=1e-3, atol=1e-4)
