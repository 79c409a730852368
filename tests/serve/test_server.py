"""A service in a process of its own, over real connections."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import uvicorn
from uvicorn.server import ServerState

from contig.errors import ConfigError
from contig.live import Engine
from contig.runs.run import Run
from contig.serve.client import Client, ServiceError
from contig.serve.connections import connections
from contig.serve.server import running, serve
from contig.serve.settings import ServeSettings

SRC = Path(__file__).resolve().parents[2] / "src"


class Service:
    """``contig serve`` in a process of its own."""

    def __init__(self, run: Run, folder: Path, *options: str, **environment: str) -> None:
        command = [
            sys.executable,
            "-m",
            "contig",
            "serve",
            str(run.path),
            "--folder",
            str(folder),
            "--port",
            "0",
        ]
        self.process = subprocess.Popen(
            [*command, "--port", "0", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1"} | environment,
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().rpartition(" ")[2].strip()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Stop it and return its exit code and what it logged."""
        self.process.send_signal(how)
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors


@pytest.fixture
def launch(text_id_run: Run, tmp_path: Path) -> Iterator[Callable[..., Service]]:
    started: list[Service] = []

    def start(*options: str, **environment: str) -> Service:
        started.append(Service(text_id_run, tmp_path / "live", *options, **environment))
        return started[-1]

    yield start
    for service in started:
        if service.process.poll() is None:
            service.process.kill()
            service.process.communicate()


def test_a_service_from_start_to_stop(
    launch: Callable[..., Service], text_id_run: Run, tmp_path: Path
) -> None:
    """It answers, stops on SIGTERM after it finished what it accepted, and starts again where it was."""
    service = launch()
    accepted: list[int] = []
    enough = threading.Event()

    def keep_sending() -> None:
        with Client(service.url) as client:
            for number in range(100_000):
                try:
                    sent = client.observe([{"src": "%2F", "dst": "n12", "t": 100.0 + number}])
                    accepted.append(sent.accepted)
                    if len(accepted) == 20:
                        enough.set()
                except ServiceError:
                    return  # it stopped

    sender = threading.Thread(target=keep_sending)
    with Client(service.url) as client:
        sender.start()
        assert enough.wait(60)
        vector = client.embed("%2F", at=103.5)  # an id that a wrong decoding would change
    code, log = service.stop()
    sender.join()
    assert code == 0, log
    lines = [json.loads(line) for line in log.splitlines()]
    assert lines[-1]["message"] == "stopped"
    assert sum(line["message"] == "request" and line["status"] == 200 for line in lines) > 20
    with Engine.open(tmp_path / "live", device="cpu") as engine:
        known = engine.status().events - 260
        assert known in (len(accepted), len(accepted) + 1), "an answer may be lost, an event never"
        np.testing.assert_array_equal(engine.embed(["%2F"], 103.5).vectors[0], vector)


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTTP/1.1\r\nHost: local", b"GET /he"])
def test_a_request_that_never_begins_is_not_waited_for(engine: Engine, sent: bytes) -> None:
    with running(engine, ServeSettings(port=0, body_seconds=0.05)) as url:
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(sent)
            with suppress(ConnectionResetError):
                assert connection.recv(1) == b""


def test_a_client_that_does_not_read_is_not_waited_for() -> None:
    class Transport(asyncio.Transport):
        aborted = False

        def abort(self) -> None:
            self.aborted = True

    async def stay_paused(seconds: float) -> bool:
        transport, config = Transport(), uvicorn.Config(lambda: None, log_config=None)
        connection = connections(seconds)(config, ServerState(), {})
        connection.connection_made(transport)
        connection._stop(connection._waiting)
        connection.pause_writing()
        due = asyncio.get_running_loop().time() + 0.01
        while asyncio.get_running_loop().time() < due:
            await asyncio.sleep(0)
        connection.resume_writing()
        return transport.aborted

    assert asyncio.run(stay_paused(0.001))
    assert not asyncio.run(stay_paused(1000))


def test_an_address_that_cannot_be_used_is_an_error(engine: Engine) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ConfigError, match="cannot listen"):
            serve(engine, ServeSettings(port=taken.getsockname()[1]))
    with pytest.raises(ConfigError, match="token"):
        serve(engine, ServeSettings(host="0.0.0.0"))


def test_running_needs_an_engine() -> None:
    with (
        pytest.raises(
            ConfigError, match=r"running\('runs/own'\): pass an engine, such as contig\.live\.Engine"
        ),
        running("runs/own"),
    ):  # type: ignore[arg-type]
        pass
