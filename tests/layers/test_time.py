"""The time encodings against their formulas, and differences that are exact at Unix times."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from contig.layers import LogTimeEncoding, TimeEncoding, elapsed

NOW = 1_700_000_000


@pytest.mark.parametrize("dim", [1, 4, 7])
@pytest.mark.parametrize("scaled", [False, True])
def test_the_encoding_equals_its_formula(dim: int, scaled: bool) -> None:
    phi = TimeEncoding(dim, slowest=1e-3, scaled=scaled)
    dt = torch.tensor([[0.0, 1.0, 2.5], [17.0, 300.0, -4.0]])
    pairs = math.ceil(dim / 2)
    frequency = np.geomspace(1.0, 1e-3, pairs) if pairs > 1 else np.ones(1)
    angle = dt.double().numpy()[..., None] * frequency
    waves = np.concatenate([np.cos(angle), np.sin(angle)], axis=-1)[..., :dim]
    expected = waves / math.sqrt(dim) if scaled else waves
    np.testing.assert_allclose(phi(dt).detach().numpy(), expected, atol=3e-5)


def test_default_frequencies_range_from_seconds_to_decades() -> None:
    frequency = TimeEncoding(6).log_frequency.exp().detach().double().numpy()
    np.testing.assert_allclose(frequency, [1.0, 10**-4.5, 1e-9], rtol=1e-5)


def test_an_optimizer_step_changes_a_frequency_by_a_fraction_of_itself() -> None:
    phi = TimeEncoding(4)
    optimizer = torch.optim.Adam(phi.parameters(), lr=1e-2)
    phi(torch.tensor([1e6])).sum().backward()
    optimizer.step()
    frequency = phi.log_frequency.exp().detach().double()
    assert 0.98e-9 < frequency[-1] < 1.02e-9


@pytest.mark.parametrize("dim", [1, 4, 7])
def test_the_logarithmic_encoding_equals_its_formula(dim: int) -> None:
    dt = np.array([[0.0, 0.5, 59.0], [86_400.0, 3e9, -4.0]])
    pairs = math.ceil(dim / 2)
    frequency = np.geomspace(4.0, 0.05, pairs) if pairs > 1 else np.full(1, 4.0)
    angle = np.log(1 + np.maximum(dt, 0))[..., None] * frequency
    expected = np.concatenate([np.cos(angle), np.sin(angle)], axis=-1)[..., :dim]
    found = LogTimeEncoding(dim)(torch.tensor(dt, dtype=torch.float32)).detach().numpy()
    np.testing.assert_allclose(found, expected, atol=3e-5)


@torch.no_grad()
def test_the_logarithmic_encoding_is_smooth_at_every_scale() -> None:
    """One percent more changes a logarithmic wave by at most 0.04; a wave of ``dt`` itself may flip."""
    dt = torch.logspace(0, 8, 500)
    change = [(phi(1.01 * dt) - phi(dt)).abs().max() for phi in (LogTimeEncoding(8), TimeEncoding(8))]
    assert change[0] < 0.041
    assert change[1] > 1.9


@pytest.mark.parametrize("gap", [1, 2, 59, 86_400])
def test_whole_seconds_are_exact_at_unix_times(gap: int) -> None:
    later, earlier = torch.tensor([NOW + gap]), torch.tensor([NOW])
    assert elapsed(later, earlier).tolist() == [float(gap)]
    assert elapsed(later, earlier).dtype == torch.float32
    phi = TimeEncoding(4)
    assert torch.equal(phi(elapsed(later, earlier)), phi(torch.tensor([float(gap)])))


@pytest.mark.parametrize("gap", [0.125, 0.5, 1.25])
def test_fractions_of_a_second_are_exact_at_unix_times(gap: float) -> None:
    later, earlier = torch.tensor([NOW + gap], dtype=torch.float64), torch.tensor([NOW]).double()
    assert elapsed(later, earlier).tolist() == [gap]


def test_float_queries_of_integer_events_and_the_reverse() -> None:
    """One float64 time against integer event times, as in a single query of a stream."""
    query = torch.tensor(NOW + 0.25, dtype=torch.float64)
    assert elapsed(query, torch.tensor([NOW, NOW - 3])).tolist() == [0.25, 3.25]
    events = torch.tensor([NOW - 0.5, NOW], dtype=torch.float64)
    assert elapsed(torch.tensor(NOW + 2), events).tolist() == [2.5, 2.0]
