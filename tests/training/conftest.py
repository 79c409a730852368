"""Fixtures of the training tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.interrupted import EPOCHS
from support.trained import tiny_stream

from contig.data.events import EventStream
from contig.runs.run import Run


@pytest.fixture(scope="module", autouse=True)
def fast(fast_training: None) -> None:
    """Use fast trainings throughout."""


@pytest.fixture(scope="session")
def stream() -> EventStream:
    return tiny_stream()


@pytest.fixture(scope="session")
def reference(trained: Callable[..., Run], stream: EventStream) -> Path:
    """Three epochs without an interruption."""
    return trained("reference", stream, epochs=EPOCHS).path
