"""Keyed events against a loop over all occurrences."""

from __future__ import annotations

import math
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import Tensor

from contig.kernels.dispatch import disabled
from contig.kernels.keyed_events import KeyedEvents

UNIT, DECAY_TIMES = 7.0, (3.0, 50.0)
BACKENDS = {"compiled": nullcontext, "torch": disabled}


def occurrences(count: int, keys: int, seed: int, dtype: torch.dtype = torch.int64) -> tuple[Tensor, Tensor]:
    """Draw keys at ascending times with ties; some keys are negative, which is nothing."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(-1, keys, count) * 0x1234567  # spread over many bits
    return torch.from_numpy(np.sign(drawn) * np.abs(drawn)).clamp(min=-1), torch.from_numpy(
        np.sort(rng.integers(0, count // 3, count))
    ).to(dtype)


def described(keys: Tensor, times: Tensor, key: int, time: float) -> list[float]:
    """Describe one key by a loop over everything that occurred."""
    earlier = [float(t) for k, t in zip(keys.tolist(), times.tolist(), strict=True) if k == key and t < time]
    if key < 0 or not earlier:
        return [0.0] * (2 + len(DECAY_TIMES))
    decayed = [math.log1p(sum(math.exp(-(time - t) / d) for t in earlier)) for d in DECAY_TIMES]
    return [math.log1p(len(earlier)), 3 - math.log1p((time - max(earlier)) / UNIT) / 10, *decayed]


def queries(keys: Tensor, times: Tensor, count: int, seed: int) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(seed)
    known = torch.unique(keys)
    asked = torch.cat([known, known + 1, torch.tensor([-1, 2**62])])
    at = rng.integers(-3, int(times[-1]) + 30, count)
    return asked[torch.from_numpy(rng.integers(0, len(asked), count))], torch.from_numpy(at).to(times.dtype)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.int64, torch.float64])
@pytest.mark.parametrize("piece", [None, 1, 37])
def test_features_are_those_of_a_loop(backend: str, dtype: torch.dtype, piece: int | None) -> None:
    keys, times = occurrences(400, keys=30, seed=3, dtype=dtype)
    with BACKENDS[backend]():
        if piece is None:
            keyed = KeyedEvents.of(keys, times, DECAY_TIMES)
        else:
            keyed = KeyedEvents.empty(DECAY_TIMES, dtype)
            for part, when in zip(keys.split(piece), times.split(piece), strict=True):
                keyed.append(part, when)
        asked, at = queries(keys, times, 300, seed=4)
        found = keyed.features(asked, at, UNIT)
    expected = [described(keys, times, k, t) for k, t in zip(asked.tolist(), at.tolist(), strict=True)]
    assert any(sum(row) for row in expected)
    torch.testing.assert_close(found, torch.tensor(expected), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_find_counts_and_dates(backend: str) -> None:
    keys, times = occurrences(300, keys=20, seed=5)
    with BACKENDS[backend]():
        keyed = KeyedEvents.of(keys, times, ())
        asked, at = queries(keys, times, 200, seed=6)
        count, last = keyed.find(asked, at)
    for k, t, n, when in zip(*(x.tolist() for x in (asked, at, count, last)), strict=True):
        earlier = times[(keys == k) & (times < t) & (keys >= 0)]
        assert n == len(earlier)
        assert when == (int(earlier[-1]) if len(earlier) else 0)


def test_a_structure_built_at_once_can_grow() -> None:
    keys, times = occurrences(500, keys=40, seed=7)
    grown = KeyedEvents.of(keys[:200], times[:200], DECAY_TIMES)
    grown.append(keys[200:], times[200:])
    whole = KeyedEvents.of(keys, times, DECAY_TIMES)
    asked, at = queries(keys, times, 300, seed=8)
    torch.testing.assert_close(grown.features(asked, at, UNIT), whole.features(asked, at, UNIT))
    assert grown.num_keys == whole.num_keys


def test_memory_is_bounded() -> None:
    """All keys distinct is the worst case; a structure that grew holds at most about three times as much."""
    keys, times = torch.arange(10_000), torch.arange(10_000)
    at_once = KeyedEvents.of(keys, times, DECAY_TIMES)
    assert at_once.nbytes() < 10_000 * (16 + 48 + 1)
    grown = KeyedEvents.empty(DECAY_TIMES, torch.int64)
    for part, when in zip(keys.split(77), times.split(77), strict=True):
        grown.append(part, when)
    assert grown.nbytes() < 10_000 * (2 * 16 + 48 + 1)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.int64, torch.float64])
def test_a_gpu_describes_like_a_cpu(dtype: torch.dtype) -> None:
    keys, times = occurrences(5000, keys=300, seed=9, dtype=dtype)
    keyed = KeyedEvents.of(keys, times, DECAY_TIMES)
    asked, at = queries(keys, times, 1000, seed=10)
    device = torch.device("cuda", 0)
    found = keyed.to(device).features(asked.to(device), at.to(device), UNIT)
    torch.testing.assert_close(found.cpu(), keyed.features(asked, at, UNIT), rtol=1e-5, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("between", [False, True], ids=["at times", "between times"])
@pytest.mark.parametrize("dtype", [torch.int64, torch.float64])
def test_a_gpu_finds_like_a_cpu(dtype: torch.dtype, between: bool) -> None:
    keys, times = occurrences(5000, keys=300, seed=13, dtype=dtype)
    keyed = KeyedEvents.of(keys, times, DECAY_TIMES)
    asked, at = queries(keys, times, 1000, seed=14)
    at = at + 0.5 if between else at
    device = torch.device("cuda", 0)
    found = keyed.to(device).find(asked.to(device), at.to(device))
    for here, there in zip(keyed.find(asked, at), found, strict=True):
        assert torch.equal(here, there.cpu())


@pytest.mark.gpu
def test_a_structure_on_a_gpu_grows() -> None:
    keys, times = occurrences(600, keys=50, seed=11)
    device = torch.device("cuda", 0)
    grown = KeyedEvents.of(keys[:100], times[:100], DECAY_TIMES).to(device)
    for part, when in zip(keys[100:].split(70), times[100:].split(70), strict=True):
        grown.append(part.to(device), when.to(device))
    asked, at = queries(keys, times, 300, seed=12)
    expected = KeyedEvents.of(keys, times, DECAY_TIMES).features(asked, at, UNIT)
    found = grown.features(asked.to(device), at.to(device), UNIT).cpu()
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
