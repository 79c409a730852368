"""Fixtures for operations that have a reference and a compiled implementation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import pytest
import torch

from contig.kernels.dispatch import disabled


@pytest.fixture(params=["compiled", "reference"])
def implementation(request: pytest.FixtureRequest) -> Iterator[str]:
    with disabled() if request.param == "reference" else nullcontext():
        yield request.param


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)
