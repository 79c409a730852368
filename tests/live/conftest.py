"""Trained runs to serve, and the events that follow their training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.live import head, train_for_serving
from support.trained import text_id_stream, tiny_stream

from contig.data.events import EventStream
from contig.runs.run import Run


@pytest.fixture(scope="session")
def live_run(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """``live_run("contig")``: a model trained on the first events of ``tiny_stream``."""
    found: dict[str, Path] = {}

    def path(model: str) -> Path:
        if model not in found:
            found[model] = train_for_serving(tmp_path_factory.mktemp("live") / model, model)
        return found[model]

    return path


@pytest.fixture(scope="session")
def text_run(trained: Callable[..., Run]) -> Path:
    """A run with text ids, some of them on both sides, and real-valued times."""
    return trained("live-text", head(text_id_stream(), 160), epochs=1).path


@pytest.fixture(scope="session")
def tiny() -> EventStream:
    return tiny_stream()
