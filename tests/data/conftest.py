"""Fixtures for tests that read data."""

from __future__ import annotations

import pytest

from contig.data.catalog import DATASETS
from contig.data.readers import READERS


@pytest.fixture
def restored_registries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo what the test registers."""
    for registry in (DATASETS, READERS):
        monkeypatch.setattr(registry, "_registered", dict(registry._registered))
