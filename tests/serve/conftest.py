"""A service around a tiny run, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from contig.serve.packages import missing_packages

if TYPE_CHECKING:
    from starlette.testclient import TestClient

    from contig.live import Engine
    from contig.runs.run import Run

BASE = "http://127.0.0.1"

# Without the extra these modules cannot be imported; test_extra.py says so.
collect_ignore_glob = ["test_[!e]*.py", "test_events.py"] if missing_packages() else []


@pytest.fixture
def engine(text_id_run: Run, tmp_path: Path) -> Iterator[Engine]:
    """An engine over text ids, some of which are both a source and a destination."""
    from contig.live import Engine

    with Engine.open(tmp_path / "live", text_id_run.path, device="cpu") as opened:
        yield opened


@pytest.fixture
def start() -> Iterator[Callable[..., TestClient]]:
    """``start(engine, token=None, max_k=5)``: a client of a running service with these settings."""
    from starlette.testclient import TestClient

    from contig.serve.app import create_app
    from contig.serve.settings import ServeSettings

    with ExitStack() as running:

        def started(engine: Any, token: str | None = None, **settings: Any) -> TestClient:
            app = create_app(engine, ServeSettings(**settings), token)
            return running.enter_context(TestClient(app, BASE, raise_server_exceptions=False))

        yield started


@pytest.fixture
def http(engine: Engine, start: Callable[..., TestClient]) -> TestClient:
    """A client of a service with the default settings."""
    return start(engine)
