"""The service says how it is: probes, status, metrics, logs, pages and its own schema."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from contig.errors import RunError
from contig.live import Engine, Settings
from contig.options import describe
from contig.serve.app import create_app
from contig.serve.logs import log_json
from contig.serve.settings import ServeSettings

EVENTS = [{"src": "n3", "dst": "n12", "t": 95.0}, {"src": "n3", "dst": "n12", "t": 1.0}]


def samples(text: str) -> dict[tuple[str, ...], float]:
    found = {}
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            found[one.name, *one.labels.values()] = one.value
    return found


def test_metrics_count_requests_and_events(http: TestClient) -> None:
    http.post("/events", json=EVENTS, params={"batch_id": "a"})
    http.post("/events", json=EVENTS, params={"batch_id": "a"})
    for id in ("n1", "n2", "nobody"):
        http.get(f"/nodes/{id}/embedding")
    http.request("BREW", "/nodes")
    found = samples(http.get("/metrics").text)
    route = "/nodes/{id:path}/embedding"
    assert found["contig_requests_total", "GET", route, "200"] == 2
    assert found["contig_requests_total", "GET", route, "404"] == 1
    assert found["contig_request_seconds_count", "GET", route] == 3
    assert found["contig_events_total", "accepted"] == 1
    assert found["contig_events_total", "repeated"] == 1
    assert found["contig_events_total", "rejected"] == 2
    assert found["contig_stored_events_total",] == 261
    assert not any("BREW" in key for key in found), "labels must stay few, whatever clients send"


def test_status_is_the_engines(http: TestClient, engine: Engine) -> None:
    answer, status = http.get("/status").json(), engine.status()
    assert (answer["events"], answer["nodes"], answer["last_time"]) == (260, 21, status.last_time)


def test_stopping_closes_the_engine(engine: Engine) -> None:
    app = create_app(engine)
    with TestClient(app, "http://127.0.0.1") as http:
        assert http.get("/readyz").status_code == 200
        assert engine.status().events == 260
    with pytest.raises(RunError, match="closed"):
        engine.embed(["n3"])


def test_a_failed_engine_is_not_ready(
    http: TestClient, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(count: int) -> None:
        raise MemoryError

    monkeypatch.setattr(engine._graph.state, "grow", fails)
    assert http.post("/events", json=EVENTS[:1]).status_code == 500
    answer = http.get("/readyz")
    assert answer.status_code == 503
    assert str(engine.folder) not in answer.text, "it answers without a token"
    assert http.get("/healthz").status_code == 200


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """What the service logs while the test runs."""
    names = ("contig", "uvicorn")
    before = {name: (logging.getLogger(name).handlers, logging.getLogger(name).level) for name in names}
    stream = io.StringIO()
    log_json(logging.INFO, stream)
    yield stream
    for name, (handlers, level) in before.items():
        logger = logging.getLogger(name)
        logger.handlers, logger.level, logger.propagate = handlers, level, True


def test_every_request_is_one_line_of_json(http: TestClient, logged: io.StringIO) -> None:
    answer = http.get("/nodes/evil%0A%7B/embedding")
    lines = [json.loads(line) for line in logged.getvalue().splitlines()]
    (line,) = [line for line in lines if line["message"] == "request"]
    assert line["path"] == "/nodes/evil\n{/embedding"
    assert (line["method"], line["status"], line["level"]) == ("GET", 404, "info")
    assert line["request_id"] == answer.headers["x-request-id"]
    assert line["bytes"] == len(answer.content)


def test_a_traceback_is_logged_within_its_line(http: TestClient, engine: Engine, logged: io.StringIO) -> None:
    engine.status = lambda: 1 / 0  # type: ignore[method-assign, assignment, return-value]
    assert http.get("/status").status_code == 500
    lines = [json.loads(line) for line in logged.getvalue().splitlines()]
    assert any("ZeroDivisionError" in line.get("traceback", "") for line in lines)


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_pages_need_nothing_from_elsewhere(path: str, http: TestClient) -> None:
    answer = http.get(path)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert policy.count("'sha256-") == 2
    links = re.findall(r"""(?:src|href)=["']([^"']+)""", answer.text)
    assert all(link.startswith(("/", "#", "data:")) for link in links)
    assert " style=" not in answer.text, "the policy would ignore it"


def test_the_schema_describes_errors_as_problems(http: TestClient) -> None:
    schema = http.get("/openapi.json").json()
    assert set(schema["paths"]) == {
        *("/events", "/score", "/nodes", "/status", "/healthz", "/readyz", "/metrics"),
        *(f"/nodes/{{id}}/{what}" for what in ("embedding", "recommendations", "trajectory", "events")),
    }
    for path in schema["paths"].values():
        for operation in path.values():
            errors = [one for code, one in operation["responses"].items() if code >= "400"]
            assert all("application/problem+json" in one["content"] for one in errors)
    names = set(schema["components"]["schemas"])
    assert {"Problem", "Event", "Pairs"} <= names
    assert "HTTPValidationError" not in names
    refs = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(schema)))
    assert refs <= names


def test_workers_finish_what_was_started(engine: Engine) -> None:
    """A batch that the engine is working on when the service stops is finished before it closes."""
    order: list[str] = []
    app = create_app(engine, ServeSettings())
    service = app.app.state.service

    async def stop_while_writing() -> None:
        loop = asyncio.get_running_loop()
        begun, go = asyncio.Event(), asyncio.Event()

        def write() -> None:
            loop.call_soon_threadsafe(begun.set)
            asyncio.run_coroutine_threadsafe(go.wait(), loop).result(30)
            order.append("written")

        writing = asyncio.ensure_future(service.workers.write(write))
        await begun.wait()
        stopping = loop.run_in_executor(None, lambda: (service.workers.finish(), order.append("stopped")))
        go.set()
        await asyncio.gather(writing, stopping)

    asyncio.run(stop_while_writing())
    assert order == ["written", "stopped"]


def test_limits_are_settings(engine: Engine, start: Callable[..., TestClient]) -> None:
    http = start(engine, max_k=4, max_steps=5)
    assert http.get("/nodes/n3/recommendations", params={"k": 5}).status_code == 422
    assert http.get("/nodes/n3/recommendations", params={"k": 4}).status_code == 200
    assert http.get("/nodes/n3/trajectory", params={"from": 1, "to": 9, "steps": 6}).status_code == 422
    assert http.get("/nodes", params={"limit": 5}).status_code == 422


def test_the_documentation_names_every_setting_with_its_default() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "live.md").read_text("utf-8")
    documented = dict(re.findall(r"^\| `(\w+)` \| (\S+) \|", text, re.MULTILINE))
    for settings in (Settings(), ServeSettings()):  # the service's own max_batch counts
        for one in describe(settings):
            assert one.name in documented
            if one.name not in {"max_batch"} or settings == ServeSettings():
                assert documented[one.name].replace(",", "") == str(one.default)
