"""Run the service with uvicorn: until a signal stops it, or in a thread."""

from __future__ import annotations

import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue

import uvicorn

from contig.errors import ConfigError
from contig.live import Engine
from contig.serve.app import create_app
from contig.serve.connections import connections
from contig.serve.settings import ServeSettings, check_address

log = logging.getLogger("contig.serve")

BACKLOG = 256  # connections that wait to be accepted
# Seconds after which a busy thread of Python lets another one run. With the usual 5 ms, an answer waits that
# long for a thread that takes in events, several times on its way.
TURN = 0.0005


def serve(
    engine: Engine,
    settings: ServeSettings | None = None,
    token: str | None = None,
    on_start: Callable[[str], None] | None = None,
) -> None:
    """Answer requests until SIGINT or SIGTERM; then finish what was accepted and close the engine.

    ``on_start`` gets the address when the service answers.
    """
    with (
        _prepared(engine, settings or ServeSettings(), token, on_start) as (server, listener),
        _quiet_signals(),
        _short_turns(),
    ):
        server.run(sockets=[listener])


@contextmanager
def running(engine: Engine, settings: ServeSettings | None = None, token: str | None = None) -> Iterator[str]:
    """Answer requests from a thread while the block runs, and yield the address.

    The engine is closed when the block ends, after what was accepted is finished.
    """
    given: object = engine
    if isinstance(given, str | Path):
        raise ConfigError(
            f"running({str(given)!r}): pass an engine, such as contig.live.Engine.open(FOLDER, RUN)."
        )
    started: Queue[str] = Queue()
    with _prepared(engine, settings or ServeSettings(), token, started.put) as (server, listener):
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="contig-serve")
        thread.start()
        try:
            yield started.get(timeout=60)
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def _prepared(
    engine: Engine, settings: ServeSettings, token: str | None, on_start: Callable[[str], None] | None
) -> Iterator[tuple[uvicorn.Server, socket.socket]]:
    """Bind the address and build the server; release the address afterwards."""
    check_address(settings.host, token)
    listener = _listen(settings)
    url = address(settings.host, listener.getsockname()[1])
    try:
        yield _Server(_config(engine, settings, token), lambda: _announce(url, on_start)), listener
    finally:
        listener.close()
        log.info("stopped", extra={"fields": {"url": url}})


@contextmanager
def _quiet_signals() -> Iterator[None]:
    """Ignore the signals that uvicorn sends once more when it has stopped: a stop on request is a success."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {which: signal.signal(which, lambda *_: None) for which in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)


@contextmanager
def _short_turns() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(TURN)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def address(host: str, port: int) -> str:
    """Return the URL of a host and a port."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _Server(uvicorn.Server):
    """A server that says when it answers."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._announce = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            self._announce()


def _announce(url: str, on_start: Callable[[str], None] | None) -> None:
    log.info("listening", extra={"fields": {"url": url}})
    if on_start is not None:
        on_start(url)


def _config(engine: Engine, settings: ServeSettings, token: str | None) -> uvicorn.Config:
    return uvicorn.Config(
        create_app(engine, settings, token),
        http=connections(settings.body_seconds),
        log_config=None,
        access_log=False,
        lifespan="on",
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=max(1, round(settings.stop_seconds)),
        h11_max_incomplete_event_size=64 * 1024,
    )


def _listen(settings: ServeSettings) -> socket.socket:
    """Bind the address at once, so that one that is taken is an error before anything else happens."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # Only if the protocol is named, asyncio sets TCP_NODELAY; without it, answers wait 40 ms for an ACK.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"--host {settings.host} --port {settings.port}: cannot listen there ({error.strerror}); "
            "choose another port, or 0 for a free one."
        ) from None
    return listener
