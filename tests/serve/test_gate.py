"""The token, the host name and the limits come before everything else."""

from __future__ import annotations

import asyncio
import hmac
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from contig.errors import ConfigError, RunError, StorageFullError
from contig.live import Engine
from contig.serve import gate
from contig.serve.app import create_app
from contig.serve.settings import ServeSettings, check_address, is_loopback, read_token

TOKEN = "0123456789abcdef0123"
EVENTS = [{"src": "n3", "dst": "n12", "t": 95.0}]
WRONG = (None, "", TOKEN, "Bearer", "Bearer ", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", f"Basic {TOKEN}")

Start = Callable[..., TestClient]


# -- token ---------------------------------------------------------------------------------------------------


def test_without_the_token_nothing_is_learned(engine: Engine, start: Start) -> None:
    http = start(engine, TOKEN, max_body=100)
    for given in (*WRONG, "Bearer \u00e9"):
        headers = {} if given is None else {"Authorization": given.encode("latin-1")}
        answers = [
            http.get("/nodes/n3/embedding", headers=headers),
            http.get("/nodes/nobody/embedding", headers=headers),
            http.get("/no/such/path", headers=headers),
            http.get("/openapi.json", headers=headers),
            http.get("/metrics", headers=headers),
            http.delete("/events", headers=headers),
            http.post("/events", json=EVENTS, headers=headers),
            http.post("/events", content=b"x" * 1000, headers=headers),
        ]
        assert {answer.status_code for answer in answers} == {401}, given
        assert {answer.headers["www-authenticate"] for answer in answers} == {"Bearer"}
        assert len({answer.text for answer in answers}) == 1
    assert engine.status().events == 260


def test_the_token_opens_everything(engine: Engine, start: Start) -> None:
    http = start(engine, TOKEN)
    http.headers["Authorization"] = f"bearer {TOKEN}"
    assert http.get("/nodes/n3/embedding").status_code == 200
    assert http.post("/events", json=EVENTS).json()["accepted"] == 1


def test_tokens_are_compared_in_constant_time(
    engine: Engine, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared, same = [], hmac.compare_digest

    def compare(a: bytes, b: bytes) -> bool:
        compared.append((a, b))
        return same(a, b)

    monkeypatch.setattr(gate.hmac, "compare_digest", compare)
    start(engine, TOKEN).get("/status", headers={"Authorization": "Bearer wrong"})
    assert compared == [(b"wrong", TOKEN.encode())]


def test_pages_and_probes_are_public_and_say_nothing(engine: Engine, start: Start) -> None:
    http = start(engine, TOKEN)
    for path in ("/healthz", "/readyz"):
        assert http.get(path).json() == {"status": "ok"}
    for path in ("/", "/docs"):
        assert "n3" not in http.get(path).text


def test_tokens_are_read_from_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CONTIG_TOKEN", raising=False)
    assert read_token(None) is None
    monkeypatch.setenv("CONTIG_TOKEN", TOKEN)
    assert read_token(None) == TOKEN
    (tmp_path / "token").write_text("another-token-of-mine\n")
    assert read_token(tmp_path / "token") == "another-token-of-mine"
    for bad in ("", "short", "with a blank in the middle", "\u00e9" * 20):
        (tmp_path / "token").write_text(bad, "utf-8")
        with pytest.raises(ConfigError, match="at least 16"):
            read_token(tmp_path / "token")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_token(tmp_path / "missing")


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.7", "::", "example.com", ""])
def test_other_addresses_need_a_token(host: str) -> None:
    with pytest.raises(ConfigError, match="token"):
        check_address(host, None)
    with pytest.raises(ConfigError, match="token"):
        check_address(host, "")
    check_address(host, TOKEN)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.5.0.1", "::1", "[::1]", "localhost", "LOCALHOST"])
def test_loopback_needs_no_token(host: str) -> None:
    assert is_loopback(host)
    check_address(host, None)


# -- host name ----------------------------------------------------------------------------------------------


def test_only_loopback_names_are_answered(http: TestClient) -> None:
    """A page whose own name points at this machine must not read from it."""
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil", ""):
        assert http.get("/status", headers={"Host": host}).status_code == 421, host
    for host in ("localhost", "localhost:8000", "127.0.0.1:1", "[::1]", "[::1]:8000"):
        assert http.get("/status", headers={"Host": host}).status_code == 200, host


def test_with_a_token_any_name_is_answered(engine: Engine, start: Start) -> None:
    headers = {"Host": "contig.example", "Authorization": f"Bearer {TOKEN}"}
    assert start(engine, TOKEN).get("/status", headers=headers).status_code == 200


# -- limits -------------------------------------------------------------------------------------------------


def test_large_bodies_are_refused(engine: Engine, start: Start) -> None:
    http = start(engine, max_body=1000)
    kind = {"Content-Type": "application/json"}

    def parts() -> Iterator[bytes]:
        for _ in range(50):
            yield b" " * 100

    assert http.post("/events", content=b" " * 1001, headers=kind).status_code == 413
    assert http.post("/events", content=parts(), headers=kind).status_code == 413, "without a Content-Length"
    assert http.post("/score", content=b" " * 1001, headers=kind).status_code == 413


def test_large_batches_are_refused(engine: Engine, start: Start) -> None:
    http = start(engine, max_batch=3)
    assert http.post("/events", json=EVENTS * 4).status_code == 413
    assert http.post("/score", json={"src": ["n3"], "dst": ["n12"] * 4}).status_code == 413
    assert http.post("/score", json={"src": ["n3"], "dst": ["n12"] * 3}).status_code == 200
    assert engine.status().events == 260


def test_too_many_requests_at_once_are_refused(engine: Engine, start: Start) -> None:
    """Two requests block in the engine; the third is refused, and the probes still answer."""
    http = start(engine, concurrency=2)
    entered, leave, status = threading.Semaphore(0), threading.Event(), engine.status

    def blocked() -> Any:
        entered.release()
        leave.wait(30)
        return status()

    engine.status = blocked  # type: ignore[method-assign]
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(http.get("/status").status_code)) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    assert all(entered.acquire(timeout=30) for _ in threads)
    refused = http.get("/nodes")
    assert refused.status_code == 503
    assert refused.headers["retry-after"] == "1"
    assert http.get("/healthz").status_code == 200
    leave.set()
    for thread in threads:
        thread.join()
    assert found == [200, 200]
    assert http.get("/nodes").status_code == 200


def test_a_body_that_does_not_arrive_times_out(engine: Engine) -> None:
    sent: list[Any] = []

    async def never() -> Any:
        await asyncio.Event().wait()

    async def keep(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/events", "headers": headers, "query_string": b""}
    scope |= {"http_version": "1.1", "scheme": "http", "root_path": "", "raw_path": b"/events"}
    asyncio.run(create_app(engine, ServeSettings(body_seconds=0.01))(scope, never, keep))
    assert sent[0]["status"] == 408


# -- errors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (StorageFullError("the disk is full"), 507),
        (RunError("the engine is closed"), 503),
        (RuntimeError("secret detail"), 500),
    ],
)
def test_failures_are_problems_without_a_traceback(
    error: Exception, status: int, http: TestClient, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*given: Any) -> Any:
        raise error

    engine.observe = fail  # type: ignore[method-assign]
    with caplog.at_level(logging.ERROR):
        answer = http.post("/events", json=EVENTS)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert len(answer.headers["x-request-id"]) == 16
    assert "Traceback" not in answer.text
    assert "secret" not in answer.text
    if status == 500:
        assert any(record.exc_info for record in caplog.records)


def test_every_response_has_the_same_safety_headers(http: TestClient) -> None:
    for answer in (http.get("/status"), http.get("/nope"), http.get("/"), http.put("/events")):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert len(answer.headers["x-request-id"]) == 16


def test_unknown_paths_and_methods_are_problems(http: TestClient) -> None:
    assert http.get("/nope").json()["status"] == 404
    wrong = http.delete("/events")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")
