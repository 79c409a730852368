"""Fixtures of the benchmark tests."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from contig.benchmarks.bench import QUICK, Bench, Settings
from contig.data.events import EventStream
from contig.data.ids import NodeIds
from contig.data.synthetic import synthetic
from contig.options import set_options


@pytest.fixture(scope="package", autouse=True)
def one_thread() -> Iterator[None]:
    """Two threads are slower on tiny tensors."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="package")
def bench() -> Bench:
    """A small benchmark on the CPU; its sessions are shared."""
    settings = set_options(Settings(), QUICK)
    return Bench.prepare(synthetic(1500, sources=60, destinations=17), settings, "cpu")


@pytest.fixture(scope="package")
def stream_without_ties() -> EventStream:
    """130 events at distinct times, so that "before this time" and "before this event" are the same."""
    rng = np.random.default_rng(0)
    return EventStream(
        src=rng.integers(0, 9, 130),
        dst=9 + rng.integers(0, 14, 130),
        t=np.cumsum(rng.integers(1, 9, 130)),
        ids=NodeIds(np.arange(23)),
    )
