"""Connections that are closed when the other end is too slow."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol


class TimedConnection(H11Protocol):
    """A connection whose requests must begin, and whose responses must be read, in time.

    Uvicorn waits forever for the rest of a request's headers, and for a client to read; few such clients
    would occupy the service. Bodies have a limit of their own (``ServeSettings.body_seconds``).
    """

    header_seconds = 30.0  # from the first byte of a request, or the connection, to the end of its headers
    read_seconds = 30.0  # for a client to read what is waiting

    _waiting: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request, not longer than the limit."""
        super().connection_made(transport)
        self._expect_headers()

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        if self._between_requests:
            self._expect_headers()
        super().data_received(data)
        if not self._between_requests:
            self._stop(self._waiting)
            self._waiting = None

    def pause_writing(self) -> None:
        """Wait for the client to read, not longer than the limit."""
        super().pause_writing()
        self._unread = self.loop.call_later(self.read_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Write on: the client has read."""
        self._stop(self._unread)
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the limits of a connection that is closed."""
        self._stop(self._waiting)
        self._stop(self._unread)
        super().connection_lost(exc)

    @property
    def _between_requests(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _expect_headers(self) -> None:
        if self._waiting is None:
            self._waiting = self.loop.call_later(self.header_seconds, self.transport.abort)

    def _stop(self, timer: asyncio.TimerHandle | None) -> None:
        if timer is not None:
            timer.cancel()


def connections(seconds: float) -> type[TimedConnection]:
    """Return a class of connections with a limit."""
    return type("Connection", (TimedConnection,), {"header_seconds": seconds, "read_seconds": seconds})
