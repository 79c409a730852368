"""Fixtures of the training tests."""

from __future__ import annotations

import pytest
from support.trained import tiny_stream

from contig.data.events import EventStream


@pytest.fixture(scope="module", autouse=True)
def fast(fast_training: None) -> None:
    """Use fast trainings throughout."""


@pytest.fixture(scope="session")
def stream() -> EventStream:
    return tiny_stream()
