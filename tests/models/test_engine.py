"""A captured step is the plain step: once per call, with the same numbers."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
import torch
from problems import CASES, case, random_stream, shape_of
from torch import Tensor

from contig.history import History
from contig.models.engine import WARM_UP, Captured, filled
from contig.tasks.link import LinkScorer


class Counter:
    """A step with a memory, so that running it twice or not at all shows."""

    def __init__(self, device: str) -> None:
        self.total = torch.zeros(1, device=device)
        self.calls = 0

    def __call__(self, events: Tensor) -> Tensor:
        self.calls += 1
        self.total += events.sum()
        return events * self.total


@pytest.mark.parametrize("size", [3, 4])
def test_on_a_cpu_every_call_runs_the_function_once(size: int) -> None:
    counter, plain = Counter("cpu"), Counter("cpu")
    step = Captured(counter, (size,))
    for call in range(2 * WARM_UP):
        events = torch.arange(call, call + 3)
        assert torch.equal(step(events), plain(events))
        assert counter.calls == call + 1
    assert step.graph is None


def test_inputs_of_another_size_run_plainly() -> None:
    """And so does everything that is not on a GPU."""
    step = Captured(lambda a, b: a + 100, (2, 3), plain=lambda a, b: a + b.sum())
    assert step(torch.tensor([1, 2]), torch.tensor([1, 1, 1])).tolist() == [4, 5]


@pytest.mark.parametrize("room", [2, 5])
def test_what_is_observed_is_filled_up_on_a_gpu_alone(room: int) -> None:
    events = torch.tensor([4, 5, 6])
    assert filled(events, room) is events


@pytest.mark.gpu
def test_filling_up_names_the_last_event_again() -> None:
    events = torch.tensor([4, 5, 6], device="cuda")
    assert filled(events, 5).tolist() == [4, 5, 6, 6, 6]
    assert filled(events, 2) is events
    assert filled(events[:0], 5).tolist() == []


@pytest.mark.gpu
def test_a_captured_step_is_the_plain_one() -> None:
    """Warm-up, capture, replays, and batches of another size in between."""
    step = Captured(Counter("cuda"), (4,))
    plain = Counter("cuda")
    for call in range(3 * WARM_UP):
        size = 3 if call in (1, 2 * WARM_UP) else 4
        events = torch.arange(call, call + size, device="cuda")
        assert torch.equal(step(events), plain(events)), call
    assert step.graph is not None
    assert torch.equal(step.function.total, plain.total)  # type: ignore[attr-defined]


@pytest.mark.gpu
def test_a_result_outlives_the_next_call() -> None:
    step = Captured(lambda events: events * 2, (3,))
    results = [step(torch.arange(i, i + 3, device="cuda")) for i in range(3 * WARM_UP)]
    assert [r.tolist() for r in results] == [[2 * i, 2 * i + 2, 2 * i + 4] for i in range(3 * WARM_UP)]


@pytest.mark.gpu
def test_what_cannot_be_captured_runs_plainly_with_one_notice(caplog: pytest.LogCaptureFixture) -> None:
    total = torch.zeros(1, device="cuda")

    def waits(events: Tensor) -> Tensor:
        if float(events.sum()) >= 0:  # asks the device for a value, which a capture forbids
            total.add_(1)
        return total.clone()

    step = Captured(waits, (3,))
    with caplog.at_level(logging.WARNING, logger="contig"):
        found = [float(step(torch.arange(3, device="cuda"))) for _ in range(3 * WARM_UP)]
    assert found == [float(i + 1) for i in range(3 * WARM_UP)]
    assert len(caplog.records) == 1
    assert "runs plainly" in caplog.text


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_every_model_walks_alike_captured_plain_and_on_a_cpu(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = random_stream(3, events=80)
    negative = torch.tensor(np.random.default_rng(0).integers(0, stream.num_nodes, (80, 1)))

    def walk(device: str) -> tuple[Any, Any]:
        model = case(name, shape_of(stream)).to(device)
        history, state = History.from_stream(stream, device), model.new_state(stream.num_nodes)
        scores = LinkScorer(model, state, history, 5)(np.arange(80), negative.to(device))
        return np.stack(scores), {k: v.cpu() for k, v in state.rows.items()}

    captured, on_cpu = walk("cuda"), walk("cpu")
    monkeypatch.setattr(Captured, "__call__", lambda self, *inputs: self.plain(*inputs))
    plain = walk("cuda")
    np.testing.assert_allclose(captured[0], plain[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(captured[0], on_cpu[0], rtol=1e-3, atol=1e-4)
    for other in (plain, on_cpu):
        torch.testing.assert_close(captured[1], other[1], rtol=1e-3, atol=1e-4)
