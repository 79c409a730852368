"""The time encodings against their formulas, and differences that are exact at Unix times."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from contig.history import TimeScale
from contig.layers import Elapsed, LogTimeEncoding, TimeEncoding
from contig.layers.time import Frequencies, TimeInput, make_time_encoding

NOW = 1_700_000_000


def elapsed(unit: float = 1.0, start: float = 0.0) -> Elapsed:
    return Elapsed(TimeScale((unit,) * 101, start=start))


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


def test_an_optimizer_step_changes_a_frequency_by_a_fraction_of_itself() -> None:
    phi = TimeEncoding(4, slowest=1e-9)
    optimizer = torch.optim.Adam(phi.parameters(), lr=1e-2)
    phi(torch.tensor([1e6])).sum().backward()
    optimizer.step()
    frequency = phi.log_frequency.exp().detach().double()
    assert 0.98e-9 < frequency[-1] < 1.02e-9


def test_frequencies_that_are_trained_directly_move_by_the_step_itself() -> None:
    """As in the paper: the encoding is the same at first, but a step of 0.01 drowns a frequency of 1e-9."""
    direct, usual = TimeEncoding(5, slowest=1e-9, direct=True), TimeEncoding(5, slowest=1e-9)
    dt = torch.tensor([[0.0, 3.0], [500.0, 1e6]])
    torch.testing.assert_close(direct(dt), usual(dt))
    before = direct.frequency.detach().clone()
    optimizer = torch.optim.Adam(direct.parameters(), lr=1e-2)
    direct(torch.tensor([1e6])).sum().backward()
    optimizer.step()
    np.testing.assert_allclose((direct.frequency.detach() - before).abs().numpy(), 1e-2, rtol=1e-3)


@pytest.mark.parametrize("frequencies", ["log", "direct"])
@pytest.mark.parametrize(
    ("given", "unit", "slowest"), [("log", 57.0, 0.1), ("linear", 102.0, 1e-3), ("raw", 1.0, 1e-9)]
)
def test_what_is_encoded_decides_the_unit_and_the_frequencies(
    given: TimeInput, frequencies: Frequencies, unit: float, slowest: float
) -> None:
    """Percentile p of the intervals is 7 + p."""
    scale = TimeScale(tuple(7.0 + percent for percent in range(101)), start=5.0)
    elapsed, phi = make_time_encoding(6, scale, given, frequencies, scaled=True)
    assert (float(elapsed.unit), float(elapsed.start)) == (unit, 5.0)
    trained = dict(phi.named_parameters())
    assert list(trained) == (["frequency"] if frequencies == "direct" else ["log_frequency"])
    [values] = trained.values()
    frequency = (values if frequencies == "direct" else values.exp()).detach().numpy()
    np.testing.assert_allclose(frequency, np.geomspace(1.0, slowest, 3), rtol=1e-5)
    argument = math.log(4) if given == "log" else 3.0
    angle = argument * np.geomspace(1.0, slowest, 3)
    expected = np.concatenate([np.cos(angle), np.sin(angle)]) / math.sqrt(6)
    np.testing.assert_allclose(phi(torch.tensor(3.0)).detach().numpy(), expected, atol=1e-6)


@pytest.mark.parametrize("dim", [1, 4, 7])
def test_the_logarithmic_encoding_equals_its_formula(dim: int) -> None:
    dt = np.array([[0.0, 0.5, 59.0], [86_400.0, 3e9, -4.0]])
    pairs = math.ceil(dim / 2)
    frequency = np.geomspace(1.0, 0.1, pairs) if pairs > 1 else np.ones(1)
    angle = np.log(1 + np.maximum(dt, 0))[..., None] * frequency
    expected = np.concatenate([np.cos(angle), np.sin(angle)], axis=-1)[..., :dim]
    found = LogTimeEncoding(dim)(torch.tensor(dt, dtype=torch.float32)).detach().numpy()
    np.testing.assert_allclose(found, expected, atol=3e-5)


@torch.no_grad()
def test_the_logarithmic_encoding_is_smooth_at_every_scale() -> None:
    """One percent more changes a logarithmic wave by at most 0.01; a wave of ``dt`` itself may flip."""
    dt = torch.logspace(0, 8, 500)
    change = [(phi(1.01 * dt) - phi(dt)).abs().max() for phi in (LogTimeEncoding(8), TimeEncoding(8))]
    assert change[0] < 0.0101
    assert change[1] > 1.9


@pytest.mark.parametrize("gap", [1, 2, 59, 86_400])
def test_whole_seconds_are_exact_at_unix_times(gap: int) -> None:
    later, earlier = torch.tensor([NOW + gap]), torch.tensor([NOW])
    assert elapsed()(later, earlier).tolist() == [float(gap)]
    assert elapsed(4.0)(later, earlier).tolist() == [gap / 4]
    assert elapsed()(later, earlier).dtype == torch.float32


@pytest.mark.parametrize("gap", [0.125, 0.5, 1.25])
def test_fractions_of_a_second_are_exact_at_unix_times(gap: float) -> None:
    later, earlier = torch.tensor([NOW + gap], dtype=torch.float64), torch.tensor([NOW]).double()
    assert elapsed()(later, earlier).tolist() == [gap]


def test_float_queries_of_integer_events_and_the_reverse() -> None:
    """One float64 time against integer event times, as in a single query of a stream."""
    query = torch.tensor(NOW + 0.25, dtype=torch.float64)
    assert elapsed()(query, torch.tensor([NOW, NOW - 3])).tolist() == [0.25, 3.25]
    events = torch.tensor([NOW - 0.5, NOW], dtype=torch.float64)
    assert elapsed()(torch.tensor(NOW + 2), events).tolist() == [2.5, 2.0]


@pytest.mark.parametrize("factor", [1000, 10**9, 60])
def test_differences_do_not_depend_on_the_unit_of_the_stream(factor: int) -> None:
    """Bit-identical, up to decades in nanoseconds, which float32 cannot even count in seconds."""
    seconds = torch.randint(0, 10**9, (500,), generator=torch.Generator().manual_seed(0))
    now = torch.tensor(2 * 10**9)
    plain, rescaled = elapsed(414.0), elapsed(414.0 * factor)
    assert torch.equal(rescaled(now * factor, seconds * factor), plain(now, seconds))
    expected = (2 * 10**9 - seconds.numpy()) / 414.0
    np.testing.assert_allclose(plain(now, seconds).numpy(), expected, rtol=1e-7)


def test_the_unit_is_a_percentile_and_is_saved_with_the_weights() -> None:
    scale = TimeScale(tuple(float(p + 3) for p in range(101)), count=9, start=100.0)
    layer, twin = Elapsed(scale, percent=95), Elapsed(TimeScale())
    twin.load_state_dict(layer.state_dict())
    for one in (layer, twin):
        assert float(one.unit) == 98.0
        assert one.since_start(torch.tensor([100, 149])).tolist() == [0.0, 0.5]
    assert float(Elapsed(scale).unit) == 53.0
