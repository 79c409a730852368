"""Cosine and sine waves against float64, from tiny to huge angles."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from contig.kernels.cpu import time_waves as loops
from contig.kernels.time_waves import time_waves

PAIRS = 5

pytestmark = pytest.mark.usefixtures("implementation")


def frequencies() -> torch.Tensor:
    """Logarithms of frequencies from 1 down to 1e-9."""
    return torch.linspace(0, math.log(1e-9), PAIRS).requires_grad_()


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("count", [0, 1, 13])
def test_waves_and_their_gradient_at_every_scale(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Float32 angles from far below 1 to a billion, of either sign."""
    monkeypatch.setattr(loops, "MIN_ROWS", 5)
    draw, log_frequency = np.random.default_rng(count), frequencies()
    dt = draw.choice([-1, 1], (2, count)) * 10 ** draw.uniform(-2, 9, (2, count))
    dt = torch.tensor(dt, dtype=torch.float32)
    up = torch.linspace(-1, 2, 2 * count * 2 * PAIRS).view(2, count, 2 * PAIRS)
    found = time_waves(dt, log_frequency)
    (grad,) = torch.autograd.grad(found, log_frequency, up)
    angle = (dt.unsqueeze(-1) * log_frequency.exp()).detach().double().numpy()
    expected = np.concatenate([np.cos(angle), np.sin(angle)], axis=-1)
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=0, atol=2e-7)
    slope = np.concatenate([-np.sin(angle) * angle, np.cos(angle) * angle], axis=-1) * up.numpy()
    expected_grad = slope[..., :PAIRS].sum((0, 1)) + slope[..., PAIRS:].sum((0, 1))
    np.testing.assert_allclose(
        grad.numpy(), expected_grad, rtol=1e-5, atol=1e-6 * np.abs(slope).max(initial=1)
    )


def test_quarter_turns() -> None:
    """Just before, at and after every quarter turn, where sine and cosine swap roles."""
    quarters = torch.arange(-9, 10).double() * math.pi / 2
    dt = torch.cat([quarters + x for x in (-0.79, -1e-4, 0.0, 1e-4, 0.79)]).float()
    found = time_waves(dt, torch.zeros(1)).double()
    expected = torch.stack([dt.double().cos(), dt.double().sin()], dim=1)
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-7)


def test_gradients_by_finite_differences() -> None:
    dt = torch.tensor([[0.3, 1.7, -2.0]], dtype=torch.float64)
    log_frequency = torch.linspace(0, -2, 3, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda log_w: time_waves(dt, log_w), (log_frequency,))


def test_differences_may_need_a_gradient() -> None:
    dt = torch.tensor([0.3, 1.7], dtype=torch.float64, requires_grad=True)
    log_frequency = torch.linspace(0, -2, 3, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(time_waves, (dt, log_frequency))


def test_waves_stay_on_the_unit_circle_for_any_time() -> None:
    """Decades in nanoseconds: float32 loses the turns, but the waves do not grow."""
    dt = torch.logspace(9, 18.5, 400)
    cosine, sine = time_waves(dt, torch.linspace(0, math.log(1e-9), 86)).double().chunk(2, dim=1)
    assert float((cosine**2 + sine**2 - 1).abs().max()) < 1e-6
