"""Damaged and senseless requests: a small part of what ``make fuzz`` sends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient
from support.http_fuzz import attack, garbage

from contig.live import Engine
from contig.serve.server import running
from contig.serve.settings import ServeSettings


def test_no_request_breaks_the_service(engine: Engine, start: Callable[..., TestClient]) -> None:
    http = start(engine, max_body=20_000, max_batch=5)
    codes = attack(http, engine, 400, seed=1)
    assert set(codes) >= {200, 404, 405, 413, 415, 422}
    assert engine.status().live_events > 10


def test_the_attack_sees_a_failure(engine: Engine, start: Callable[..., TestClient]) -> None:
    """Both kinds: an error of the service, and a refused request that changed the state."""
    http, observe = start(engine), engine.observe

    def half(events: Any, batch_id: str | None = None) -> Any:
        observe(events, batch_id)
        raise ValueError

    engine.observe = half  # type: ignore[method-assign]
    with pytest.raises(AssertionError, match="500"):
        attack(http, engine, 400, seed=1)


def test_what_is_not_http_breaks_nothing(engine: Engine) -> None:
    with running(engine, ServeSettings(port=0)) as url:
        garbage(url, 60, seed=2)
