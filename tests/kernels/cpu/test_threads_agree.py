"""Loops on several threads give what one thread gives, bit for bit: one of them computes each result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from contig.kernels.cpu import keyed_events as keyed_loops
from contig.kernels.cpu import launch
from contig.kernels.cpu import linked_flow as flow_loops
from contig.kernels.cpu import weighted_rows as row_loops
from contig.kernels.forced_series import SeriesSettings
from contig.kernels.keyed_events import KeyedEvents
from contig.kernels.linked_flow import linked_flow
from contig.kernels.weighted_rows import weighted_rows

THREADS = (2, 3, 5)


@pytest.fixture
def ranges(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many threads each loop ran on; no loop is too small for several."""
    used: list[int] = []
    run = launch.run_parallel

    def noted(work: Any, parts: Any) -> None:
        used.append(len(parts))
        run(work, parts)

    monkeypatch.setattr(launch, "run_parallel", noted)
    monkeypatch.setattr(keyed_loops, "MIN_QUERIES", 2)
    monkeypatch.setattr(row_loops, "MIN_COLUMNS", 1)
    monkeypatch.setattr(flow_loops, "MIN_COLUMNS", 1)
    before = torch.get_num_threads()
    yield used
    torch.set_num_threads(before)


def test_features_of_keys(ranges: list[int]) -> None:
    drawn = torch.Generator().manual_seed(4)
    keys = torch.randint(-1, 90, (700,), generator=drawn)
    times = torch.randint(0, 400, (700,), generator=drawn).sort().values
    keyed = KeyedEvents.of(keys, times, (3.0, 50.0))
    asked = torch.randint(-1, 120, (61,), generator=drawn), torch.randint(0, 450, (61,), generator=drawn)
    torch.set_num_threads(1)
    expected = keyed.features(*asked, 2.5)
    assert len(expected.unique(dim=0)) > 20
    for threads in THREADS:
        torch.set_num_threads(threads)
        assert torch.equal(keyed.features(*asked, 2.5), expected)
    assert ranges == [1, *THREADS]


def test_weighted_rows_and_their_gradients(ranges: list[int]) -> None:
    drawn = torch.Generator().manual_seed(5)
    table = torch.randn(17, 11, generator=drawn)
    index = torch.randint(0, 17, (29, 4), generator=drawn)
    weight = torch.randn(29, 4, generator=drawn) * (torch.rand(29, 4, generator=drawn) < 0.7)
    upstream = torch.randn(29, 11, generator=drawn)

    def computed() -> tuple[Tensor, Tensor]:
        leaf = table.clone().requires_grad_()
        sums = weighted_rows(leaf, index, weight)
        sums.backward(upstream)
        assert leaf.grad is not None
        return sums.detach(), leaf.grad

    torch.set_num_threads(1)
    expected = computed()
    torch.testing.assert_close(expected[0], (table[index] * weight.unsqueeze(-1)).sum(1))
    for threads in THREADS:
        torch.set_num_threads(threads)
        for found, known in zip(computed(), expected, strict=True):
            assert torch.equal(found, known)
    assert ranges == [1, 1, *(threads for threads in THREADS for _ in range(2))]


def test_linked_rows_and_their_gradients(ranges: list[int]) -> None:
    drawn = torch.Generator().manual_seed(6)
    x, gates = torch.randn(17, 11, generator=drawn), torch.rand(17, 33, generator=drawn)
    own, linked = torch.randint(0, 17, (29,), generator=drawn), torch.randint(0, 17, (29, 4), generator=drawn)
    weight = torch.rand(29, 4, generator=drawn) * (torch.rand(29, 4, generator=drawn) < 0.7)
    upstream = torch.randn(29, 11, generator=drawn)

    def computed() -> tuple[Tensor, ...]:
        leaves = x.clone().requires_grad_(), gates.clone().requires_grad_()
        moved = linked_flow(*leaves, own, linked, weight, SeriesSettings(0.4, 9), 1.2)
        return moved.detach(), *torch.autograd.grad(moved, leaves, upstream)

    torch.set_num_threads(1)
    expected = computed()
    for threads in THREADS:
        torch.set_num_threads(threads)
        for found, known in zip(computed(), expected, strict=True):
            torch.testing.assert_close(found, known, rtol=1e-6, atol=1e-6)  # columns may be vectorized or not
    assert ranges == [1, 1, *(threads for threads in THREADS for _ in range(2))]
