"""Endpoints for people and machines that watch the service, and its pages."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import asdict
from functools import cache
from http import HTTPStatus
from importlib import resources

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST

from contig.errors import RunError
from contig.serve.problems import RequestError
from contig.serve.schemas import HealthAnswer, StatusAnswer
from contig.serve.service import CurrentService

router = APIRouter(tags=["service"])


@router.get("/healthz", summary="Whether the process answers")
async def healthz() -> HealthAnswer:
    """Answer while the process is alive."""
    return HealthAnswer(status="ok")


@router.get("/readyz", summary="Whether the service takes requests")
async def readyz(service: CurrentService) -> HealthAnswer:
    """Answer 503 when the engine has failed and must be opened again."""
    try:
        service.engine.check()
    except RunError:  # whose message names the folder, and this answers without a token
        raise RequestError(HTTPStatus.SERVICE_UNAVAILABLE, "The engine has failed; see the log.") from None
    return HealthAnswer(status="ok")


@router.get("/status", summary="Size and throughput")
async def status(service: CurrentService) -> StatusAnswer:
    """Return the number of events and nodes, the size of the log, the last snapshot and the throughput."""
    found = await service.workers.read(service.engine.status)
    date_of = service.engine.date_of
    first, last = date_of(found.first_time), date_of(found.last_time)
    return StatusAnswer(**asdict(found), first_time_date=first, last_time_date=last)


@router.get("/metrics", summary="Metrics for Prometheus", response_class=Response)
async def metrics(service: CurrentService) -> Response:
    """Return all metrics in the text format of Prometheus."""
    text = await service.workers.read(service.metrics.text)
    return Response(text, media_type=CONTENT_TYPE_LATEST)


@router.get("/", include_in_schema=False)
async def page() -> Response:
    """Return the page that shows nodes and their trajectories."""
    return _html("page.html")


@router.get("/docs", include_in_schema=False)
async def docs() -> Response:
    """Return the page that documents the endpoints."""
    return _html("docs.html")


def _html(name: str) -> Response:
    text, policy = _page(name)
    return Response(text, media_type="text/html", headers={"Content-Security-Policy": policy})


@cache
def _page(name: str) -> tuple[str, str]:
    """Return a page, and a policy that allows its own inline code and nothing else."""
    text = resources.files("contig.serve").joinpath(name).read_text("utf-8")
    sources = [_hashes(tag, text) for tag in ("script", "style")]
    policy = "default-src 'none'; script-src {}; style-src {}; connect-src 'self'; img-src data:; "
    return text, policy.format(*sources) + "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def _hashes(tag: str, text: str) -> str:
    blocks = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(block.encode()).digest()).decode() for block in blocks]
    return " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
