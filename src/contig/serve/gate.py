"""What every request passes first: the token, the host name, the limits, the log and the metrics."""

from __future__ import annotations

import hmac
import logging
import time
import uuid
from http import HTTPStatus
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from contig.serve.metrics import Metrics
from contig.serve.problems import problem
from contig.serve.settings import ServeSettings, is_loopback

log = logging.getLogger("contig.serve")

# Without a token these say that a service is there, and nothing about its data.
PUBLIC = frozenset({"/", "/docs", "/healthz", "/readyz"})
PROBES = frozenset({"/healthz", "/readyz"})  # answered under any load

SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class Gate:
    """ASGI middleware around the whole service.

    A request without the right token learns nothing: not whether a path exists, nor whether its body is too
    large. Without a token, only requests to a loopback name are answered: a page of another site that points
    its own name at this machine is refused.
    """

    def __init__(self, app: ASGIApp, settings: ServeSettings, token: str | None, metrics: Metrics) -> None:
        self.app, self.settings, self.metrics = app, settings, metrics
        self.token = token.encode() if token else None
        self.open_requests = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        record = _Record(scope, send)
        self.open_requests += 1
        try:
            refused = self._refusal(scope)
            await (refused or self.app)(scope, receive, record.send)
        except Exception:
            if not record.status:  # otherwise it is answered and logged
                raise
        finally:
            self.open_requests -= 1
            record.write(self.metrics)

    def _refusal(self, scope: Scope) -> Response | None:
        """Return the response to a request that goes no further."""
        headers = Headers(scope=scope)
        if self.token is not None:
            if scope["path"] not in PUBLIC and not self._authorized(headers):
                headers_401 = {"WWW-Authenticate": "Bearer"}
                return problem(HTTPStatus.UNAUTHORIZED, "Send the token as a bearer token.", (), headers_401)
        elif not is_loopback(_host_name(headers.get("host", ""))):
            detail = "Without a token, the service answers only to localhost and loopback addresses."
            return problem(HTTPStatus.MISDIRECTED_REQUEST, detail)
        return self._overload(scope) or self._oversize(headers)

    def _authorized(self, headers: Headers) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        same = hmac.compare_digest(given.strip().encode("utf-8", "replace"), self.token or b"")
        return same and scheme.lower() == "bearer"

    def _overload(self, scope: Scope) -> Response | None:
        if self.open_requests <= self.settings.concurrency or scope["path"] in PROBES:
            return None
        detail = f"More than {self.settings.concurrency} requests are in progress; try again."
        return problem(HTTPStatus.SERVICE_UNAVAILABLE, detail, (), {"Retry-After": "1"})

    def _oversize(self, headers: Headers) -> Response | None:
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length[:20]) > self.settings.max_body:
            return problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, too_large(self.settings.max_body))
        return None


def too_large(limit: int) -> str:
    """Return the message for a body over the limit."""
    return f"The body is larger than {limit:,} bytes; send smaller batches."


def _host_name(host: str) -> str:
    """Return a Host header without its port."""
    return host[: host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]


class _Record:
    """One request for the log and the metrics."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self.scope, self._send = scope, send
        self.id, self.begun = uuid.uuid4().hex[:16], time.perf_counter()
        self.status, self.sent = 0, 0

    async def send(self, message: Message) -> None:
        """Send a message of the response, with the headers that all responses have."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
            headers["X-Request-ID"] = self.id
        elif message["type"] == "http.response.body":
            self.sent += len(message.get("body", b""))
        await self._send(message)

    def write(self, metrics: Metrics) -> None:
        """Log and count the request."""
        seconds, method = time.perf_counter() - self.begun, self.scope["method"]
        metrics.count_request(method, self._route(), self.status, seconds)
        if not log.isEnabledFor(logging.INFO):
            return
        fields: dict[str, Any] = {
            "request_id": self.id,
            "client": (self.scope.get("client") or ("",))[0],
            "method": method,
            "path": self.scope["path"],
            "status": self.status,
            "milliseconds": round(1000 * seconds, 3),
            "bytes": self.sent,
        }
        log.info("request", extra={"fields": fields})

    def _route(self) -> str:
        """Return the route's pattern: the number of different metrics must not grow with the ids."""
        return getattr(self.scope.get("route"), "path", "other")
