"""Send thousands of damaged and senseless requests to a service: ``make fuzz``.

Every answer must be a success or a problem with a status below 500, without a traceback, and a refused
request must leave the state as it was.
"""

from __future__ import annotations

import argparse
import io
import json
import logging
import random
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np
import pyarrow as pa
import torch
from starlette.testclient import TestClient

from contig.live import Engine
from contig.serve.app import create_app
from contig.serve.client import Client
from contig.serve.server import running
from contig.serve.settings import ServeSettings
from support.trained import fast_training, text_id_stream, train_tiny

ARROW = "application/vnd.apache.arrow.stream"
KINDS = ("application/json", "application/x-ndjson", ARROW)
METHODS = ("GET", "GET", "GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "BREW")
WHAT = ("embedding", "recommendations", "trajectory", "events", "", "nothing", "embedding/embedding")
PATHS = (
    "/status",
    "/healthz",
    "/readyz",
    "/metrics",
    "/openapi.json",
    "/",
    "/docs",
    "/nope",
    "//",
    "/events",
    "/score",
)
NUMBERS = (0, 1, -1, 2**31, 2**53 + 1, 2**62, 2**63, -(2**63) - 1, 10**400, 0.1, -0.0, 1e308, 5e-324, 95.5)
WORDS = (
    "",
    "n3",
    "n12",
    "n99",
    "0",
    "-1",
    "1e400",
    "nan",
    "inf",
    "NULL",
    "木",
    "' OR 1=1",
    "x" * 3000,
    "%00",
)
DATES = ("2024-05-01T12:00:00Z", "0001-01-01", "9999-12-31T23:59:59+14:00", "2024-13-01", "12:00")
PITFALLS = ("../../etc/passwd", "a/b", "\u202e", "\ud800", "\0", "n3/embedding", "\r\nX-Injected: 1")
OTHERS = (None, True, False, [], {}, [[]], {"src": 1}, [1, 2], ["n3"])
VALUES: tuple[Any, ...] = (*NUMBERS, *WORDS, *DATES, *PITFALLS, *OTHERS)


@dataclass
class Fuzzer:
    """Draws requests from a seed."""

    seed: int
    clock: float = 90.0
    random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def request(self) -> tuple[str, str, dict[str, Any]]:
        """Draw a method, a path and the rest of a request."""
        draw = self.random
        if draw.random() < 0.5:
            return "POST", draw.choice(("/events", "/events", "/score")), self._with_body()
        path = draw.choice(PATHS)
        if draw.random() < 0.8:
            id = draw.choice(("n3", "n12", "n14", self._text()))
            safe = "" if draw.random() < 0.7 else "/%"
            path = f"/nodes/{quote(id, safe=safe, errors='replace')}/{draw.choice(WHAT)}"
        return draw.choice(METHODS), path, {"params": self._query()}

    def _text(self) -> str:
        value = self.random.choice(VALUES)
        return value if isinstance(value, str) else json.dumps(value)

    def _query(self) -> dict[str, str]:
        names = (
            "at",
            "from",
            "to",
            "steps",
            "k",
            "side",
            "spacing",
            "embeddings",
            "exclude_seen",
            "prefix",
            "limit",
        )
        usual = {"from": "20", "to": "80", "steps": "5", "k": "3", "side": "src", "at": "40.5"}
        query = {name: value for name, value in usual.items() if self.random.random() < 0.5}
        for name in self.random.sample(names, self.random.choice((0, 0, 1, 2))):
            query[name] = self._text().encode("utf-8", "replace").decode()
        return query

    def _with_body(self) -> dict[str, Any]:
        kind = self.random.choice((*KINDS, *KINDS, "text/plain", "application/json; charset=utf-16", ""))
        headers = {"Content-Type": kind} if kind else {}
        if self.random.random() < 0.2:
            headers["Idempotency-Key"] = self.random.choice(("a", "b", "x" * 300, " ", "é"))
        headers = {name: value.encode("utf-8") for name, value in headers.items()}
        return {"content": self._damaged(self._body(kind)), "headers": headers}

    def _body(self, kind: str) -> bytes:
        events = [self._event() for _ in range(self.random.choice((0, 1, 1, 2, 7)))]
        if kind == ARROW:
            return self._arrow(events)
        if self.random.random() < 0.3:
            return json.dumps({"src": ["n3"], "dst": ["n12"], "at": self.random.choice(VALUES)}).encode()
        if "ndjson" in kind:
            return "\n".join(json.dumps(event) for event in events).encode()
        return json.dumps(events).encode()

    def _event(self) -> dict[str, Any]:
        self.clock += 1
        event: dict[str, Any] = {
            "src": f"n{self.random.randrange(16)}",
            "dst": f"n{self.random.randrange(9, 20)}",
            "t": self.clock + self.random.uniform(-3, 1),
        }
        for _ in range(self.random.choice((0, 0, 1, 2))):
            event[self.random.choice(("src", "dst", "t", "features", "label"))] = self.random.choice(VALUES)
        return event

    def _arrow(self, events: list[dict[str, Any]]) -> bytes:
        names = self.random.choice((("src", "dst", "t"), ("src", "dst", "t", "features"), ("src", "t"), ()))
        columns = {}
        for name in names:
            try:
                columns[name] = pa.array([event.get(name) for event in events])
            except (pa.ArrowException, OverflowError, UnicodeError, ValueError, TypeError):
                columns[name] = pa.array(["n3"] * len(events))
        sink = io.BytesIO()
        compression = self.random.choice((None, None, None, "zstd", "lz4"))
        table = pa.table(columns)
        with pa.ipc.new_stream(
            sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)
        ) as out:
            out.write_table(table)
        return sink.getvalue()

    def _damaged(self, body: bytes) -> bytes:
        if self.random.random() < 0.6 or not body:
            return body
        changed = bytearray(body)
        for _ in range(self.random.choice((1, 1, 3, 20))):
            at = self.random.randrange(len(changed))
            match self.random.randrange(4):
                case 0:
                    changed[at] = self.random.randrange(256)
                case 1:
                    changed[at] ^= 1 << self.random.randrange(8)
                case 2:
                    del changed[at : at + self.random.randrange(1, 30)]
                case _:
                    changed[at:at] = self.random.choice(
                        (b"\0", b"[", b"{", b'"', b"\xff" * 9, b"1e999", b"NaN")
                    )
            if not changed:
                break
        return bytes(changed)


def attack(http: TestClient, engine: Engine, requests: int, seed: int) -> Counter[int]:
    """Send requests and count the status codes; raise ``AssertionError`` at the first bad answer."""
    fuzzer, codes = Fuzzer(seed), Counter[int]()
    state = _state(engine)
    for number in range(requests):
        method, path, rest = fuzzer.request()
        shown = f"request {number} of seed {seed}: {method} {path} {str(rest)[:500]}"
        answer = http.request(method, path, **rest)
        codes[answer.status_code] += 1
        assert answer.status_code < 500, f"{shown}: {answer.status_code} {answer.text[:500]}"
        assert "Traceback" not in answer.text, shown
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/problem+json", shown
            assert _size(engine) == state[0], f"{shown}: a refused request changed the state"
        if number % 100 == 0 and _size(engine) == state[0]:
            np.testing.assert_array_equal(_vectors(engine), state[1], err_msg=shown)
        elif _size(engine) != state[0]:
            state = _state(engine)
    return codes


def _state(engine: Engine) -> tuple[tuple[Any, ...], Any]:
    return _size(engine), _vectors(engine)


def _size(engine: Engine) -> tuple[Any, ...]:
    status = engine.status()
    return status.events, status.nodes, status.late_events, status.last_time


def _vectors(engine: Engine) -> Any:
    return engine.embed(["n1", "n3", "n7"], 200.5, side="src").vectors


def garbage(url: str, connections: int, seed: int) -> None:
    """Send bytes that are not HTTP, or only half of it; the service must go on answering."""
    draw, place = random.Random(seed), urlsplit(url)
    valid = (
        b"POST /events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 2\r\n\r\n[]"
    )
    for _ in range(connections):
        message = bytearray(valid)
        for _ in range(draw.choice((0, 1, 5, 40))):
            message[draw.randrange(len(message))] = draw.randrange(256)
        with socket.create_connection((place.hostname, place.port), 10) as connection:
            connection.sendall(bytes(message[: draw.randrange(1, len(message) + 1)]))
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(10)
            answer = connection.recv(65536)
        assert b"Traceback" not in answer, bytes(message)
        assert not answer.startswith(b"HTTP/1.1 5"), (bytes(message), answer)
    with Client(url) as client:
        assert client.is_ready()


@contextmanager
def served(folder: Path) -> Iterator[tuple[TestClient, Engine]]:
    """A service around a tiny run that is trained in ``folder``."""
    with fast_training():
        run = train_tiny(text_id_stream(), folder / "run")
    engine = Engine.open(folder / "live", run.path, device="cpu")
    app = create_app(engine, ServeSettings(max_body=20_000, max_batch=5))
    with TestClient(app, "http://127.0.0.1", raise_server_exceptions=False, follow_redirects=False) as http:
        yield http, engine


def main() -> None:
    """Send requests and print how often each status code was answered."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("contig").setLevel(logging.CRITICAL)
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="contig-fuzz-") as folder:
        with served(Path(folder)) as (http, engine):
            codes = attack(http, engine, given.requests, given.seed)
            events = engine.status().live_events
        with running(Engine.open(Path(folder) / "live", device="cpu"), ServeSettings(port=0)) as url:
            garbage(url, given.requests // 20, given.seed)
    answers = ", ".join(f"{count:,} x {code}" for code, count in sorted(codes.items()))
    seconds = time.perf_counter() - begun
    print(
        f"{given.requests:,} requests in {seconds:,.0f} s: {answers}; {events:,} events accepted", flush=True
    )
    if not codes[200] or not codes[422]:
        sys.exit("the requests were all alike; see Fuzzer")


if __name__ == "__main__":
    main()
