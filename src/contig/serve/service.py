"""What all endpoints share."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, Request
from starlette.requests import ClientDisconnect

from contig.live import Engine
from contig.serve.gate import too_large
from contig.serve.metrics import Metrics
from contig.serve.problems import RequestError
from contig.serve.settings import ServeSettings
from contig.serve.workers import Workers


@dataclass
class Service:
    """The engine behind an app, the threads that call it, and the limits."""

    engine: Engine
    settings: ServeSettings
    workers: Workers
    metrics: Metrics


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


CurrentService = Annotated[Service, Depends(_service)]


async def read_body(request: Request, settings: ServeSettings) -> bytes:
    """Receive a body within the limits of size and time."""
    parts, size = [], 0
    try:
        async with asyncio.timeout(settings.body_seconds):
            async for part in request.stream():
                size += len(part)
                if size > settings.max_body:
                    raise RequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, too_large(settings.max_body))
                parts.append(part)
    except TimeoutError:
        detail = f"The body did not arrive within {settings.body_seconds:g} seconds."
        raise RequestError(HTTPStatus.REQUEST_TIMEOUT, detail) from None
    except ClientDisconnect:
        raise RequestError(HTTPStatus.BAD_REQUEST, "The client closed the connection.") from None
    return b"".join(parts)


def media_type(request: Request) -> str:
    """Return the Content-Type of a request without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def check_limit(name: str, value: int, low: int, high: int) -> None:
    """Refuse a number outside of its limits."""
    if not low <= value <= high:
        detail = f"{name}={value} must be between {low} and {high:,}."
        raise RequestError(HTTPStatus.UNPROCESSABLE_ENTITY, detail)
