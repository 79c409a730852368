"""The time encodings against their formulas, and differences that stay exact at Unix seconds."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from contig.kernels import dispatch
from contig.layers import LogTimeEncoding, TimeEncoding, elapsed, time

NOW = 1_700_000_000


@pytest.fixture(params=["loops", "torch"])
def route(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "torch":
        monkeypatch.setattr(dispatch, "_enabled", False)


@pytest.mark.usefixtures("route")
@pytest.mark.parametrize("dim", [1, 4, 7])
@pytest.mark.parametrize("scaled", [False, True])
def test_the_encoding_is_its_formula(dim: int, scaled: bool) -> None:
    phi = TimeEncoding(dim, slowest=1e-3, scaled=scaled)
    dt = torch.tensor([[0.0, 1.0, 2.5], [17.0, 300.0, -4.0]])
    pairs = math.ceil(dim / 2)
    frequency = np.geomspace(1.0, 1e-3, pairs) if pairs > 1 else np.ones(1)
    angle = dt.double().numpy()[..., None] * frequency
    waves = np.concatenate([np.cos(angle), np.sin(angle)], axis=-1)[..., :dim]
    expected = waves / math.sqrt(dim) if scaled else waves
    np.testing.assert_allclose(phi(dt).detach().numpy(), expected, atol=3e-5)


def test_the_default_ladder_runs_from_seconds_to_decades() -> None:
    frequency = TimeEncoding(6).log_frequency.exp().detach().double().numpy()
    np.testing.assert_allclose(frequency, [1.0, 10**-4.5, 1e-9], rtol=1e-5)


def test_frequencies_learn_by_shares_of_themselves() -> None:
    """One step of the optimizer on the slowest frequency leaves it slow."""
    phi = TimeEncoding(4)
    optimizer = torch.optim.Adam(phi.parameters(), lr=1e-2)
    phi(torch.tensor([1e6])).sum().backward()
    optimizer.step()
    frequency = phi.log_frequency.exp().detach().double()
    assert 0.98e-9 < frequency[-1] < 1.02e-9


@pytest.mark.parametrize("dim", [1, 4, 7])
def test_the_logarithmic_encoding_is_its_formula(dim: int) -> None:
    dt = np.array([[0.0, 0.5, 59.0], [86_400.0, 3e9, -4.0]])
    pairs = math.ceil(dim / 2)
    frequency = np.geomspace(4.0, 0.05, pairs) if pairs > 1 else np.full(1, 4.0)
    angle = np.log(1 + np.maximum(dt, 0))[..., None] * frequency
    expected = np.concatenate([np.cos(angle), np.sin(angle)], axis=-1)[..., :dim]
    found = LogTimeEncoding(dim)(torch.tensor(dt, dtype=torch.float32)).detach().numpy()
    np.testing.assert_allclose(found, expected, atol=3e-5)


@torch.no_grad()
def test_intervals_a_little_longer_are_encoded_a_little_differently_at_every_scale() -> None:
    """A hundredth more moves a logarithmic wave by at most 4 hundredths; one of ``dt`` may turn around."""
    dt = torch.logspace(0, 8, 500)
    moved = [(phi(1.01 * dt) - phi(dt)).abs().max() for phi in (LogTimeEncoding(8), TimeEncoding(8))]
    assert moved[0] < 0.041
    assert moved[1] > 1.9


@pytest.mark.parametrize("gap", [1, 2, 59, 86_400])
def test_whole_seconds_count_at_unix_times(gap: int) -> None:
    later, earlier = torch.tensor([NOW + gap]), torch.tensor([NOW])
    assert elapsed(later, earlier).tolist() == [float(gap)]
    assert elapsed(later, earlier).dtype == torch.float32
    phi = TimeEncoding(4)
    assert torch.equal(phi(elapsed(later, earlier)), phi(torch.tensor([float(gap)])))


@pytest.mark.parametrize("gap", [0.125, 0.5, 1.25])
def test_fractions_of_a_second_count_at_unix_times(gap: float) -> None:
    later, earlier = torch.tensor([NOW + gap], dtype=torch.float64), torch.tensor([NOW]).double()
    assert elapsed(later, earlier).tolist() == [gap]


def test_a_fractional_query_of_whole_seconds() -> None:
    """One time of float64 against integer event times, as a single query against a stream is."""
    asked = torch.tensor(NOW + 0.25, dtype=torch.float64)
    assert elapsed(asked, torch.tensor([NOW, NOW - 3])).tolist() == [0.25, 3.25]
    events = torch.tensor([NOW - 0.5, NOW], dtype=torch.float64)
    assert elapsed(torch.tensor(NOW + 2), events).tolist() == [2.5, 2.0]


def test_gradients_by_finite_differences() -> None:
    phi = TimeEncoding(5, slowest=0.1).double()
    dt = torch.tensor([0.3, 1.7], dtype=torch.float64, requires_grad=True)

    def encoded(x: torch.Tensor, log_frequency: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(phi, {"log_frequency": log_frequency}, (x,))

    assert torch.autograd.gradcheck(encoded, (dt, phi.log_frequency))


@pytest.mark.usefixtures("route")
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("count", [0, 1, 13])
def test_waves_and_their_gradient_by_the_formula_at_every_scale(
    threads: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Angles from far below 1 to a billion, of either sign, as float32 has them, against float64."""
    monkeypatch.setattr(time, "PART", 20)
    phi = TimeEncoding(9)
    draw = np.random.default_rng(count)
    sign = draw.choice([-1, 1], (2, count))
    dt = torch.tensor(sign * 10 ** draw.uniform(-2, 9, (2, count)), dtype=torch.float32)
    up = torch.linspace(-1, 2, 2 * count * 9).view(2, count, 9)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        found = phi(dt)
        (ours,) = torch.autograd.grad(found, phi.log_frequency, up)
    finally:
        torch.set_num_threads(before)
    angle = (dt.unsqueeze(-1) * phi.log_frequency.exp()).detach().double().numpy()
    waves = np.concatenate([np.cos(angle), np.sin(angle)], axis=-1)[..., :9]
    np.testing.assert_allclose(found.detach().numpy(), waves, rtol=0, atol=2e-7)
    slope = np.concatenate([-np.sin(angle) * angle, (np.cos(angle) * angle)[..., :4]], axis=-1) * up.numpy()
    expected = slope[..., :5].sum((0, 1)) + np.append(slope[..., 5:].sum((0, 1)), 0)
    np.testing.assert_allclose(ours.numpy(), expected, rtol=1e-5, atol=1e-6 * np.abs(slope).max(initial=1))


@pytest.mark.usefixtures("route")
def test_the_quarters_of_a_turn() -> None:
    """Just before, at and after every quarter, where sine and cosine change places."""
    quarters = torch.arange(-9, 10).double() * math.pi / 2
    dt = torch.cat([quarters + x for x in (-0.79, -1e-4, 0.0, 1e-4, 0.79)]).float()
    found = TimeEncoding(2)(dt).detach().double()
    expected = torch.stack([dt.double().cos(), dt.double().sin()], dim=1)
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-7)


@pytest.mark.usefixtures("route")
def test_gradients_of_fixed_differences_by_finite_differences() -> None:
    phi = TimeEncoding(5, slowest=0.1).double()
    dt = torch.tensor([[0.3, 1.7, -2.0]], dtype=torch.float64)

    def encoded(log_frequency: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(phi, {"log_frequency": log_frequency}, (dt,))

    assert torch.autograd.gradcheck(encoded, (phi.log_frequency,))


def test_waves_stay_on_the_circle_however_long_the_time() -> None:
    """Decades in nanoseconds: the turns are lost in float32, but the encoding is no larger than ever."""
    dt = torch.logspace(9, 18.5, 400)
    cosine, sine = TimeEncoding(172)(dt).detach().double().chunk(2, dim=1)
    assert float((cosine**2 + sine**2 - 1).abs().max()) < 1e-6
