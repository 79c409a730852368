"""Fixtures of the tests of finished runs."""

from __future__ import annotations

import pytest

from contig.data.events import EventStream
from contig.runs.run import Run


@pytest.fixture(scope="module", autouse=True)
def fast(fast_training: None) -> None:
    """Use fast trainings throughout."""


@pytest.fixture(scope="session")
def run(tiny_run: Run) -> Run:
    return tiny_run


@pytest.fixture(scope="session")
def stream(tiny_run: Run) -> EventStream:
    return tiny_run.stream
