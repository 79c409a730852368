"""Endpoints that take in events and score pairs."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from pydantic import TypeAdapter, ValidationError

from contig.errors import UnknownNodeError
from contig.runs.answers import Scores
from contig.serve import bodies
from contig.serve.nodes import finite
from contig.serve.problems import RequestError
from contig.serve.schemas import Event, Pairs, PairScore, ReceiptAnswer, RejectedEvent, ScoresAnswer
from contig.serve.service import CurrentService, Service, media_type, read_body

router = APIRouter(tags=["events and pairs"])

EVENT_SCHEMA = {"$ref": "#/components/schemas/Event"}
EVENT_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            bodies.JSON: {"schema": {"type": "array", "minItems": 1, "items": EVENT_SCHEMA}},
            bodies.JSON_LINES: {"schema": {"type": "string", "description": "an event per line"}},
            bodies.ARROW: {"schema": {"type": "string", "format": "binary"}},
        },
    }
}
PAIR_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {bodies.JSON: {"schema": {"$ref": "#/components/schemas/Pairs"}}},
    }
}
BODIES = (Event, Pairs)  # read by hand, so FastAPI does not list them in the schema

BatchId = Annotated[
    str | None,
    Query(min_length=1, max_length=200, description="name of the batch: sent again, it changes nothing"),
]
Key = Annotated[
    str | None,
    Header(min_length=1, max_length=200, description="the same as `batch_id`, as a header"),
]
_PAIRS = TypeAdapter(Pairs)


@router.post("/events", openapi_extra=EVENT_BODY, summary="Take in events")
async def events(
    service: CurrentService, request: Request, batch_id: BatchId = None, idempotency_key: Key = None
) -> ReceiptAnswer:
    """Store events and update the state; the answer comes when they are on disk.

    The body is a JSON list, JSON lines (`application/x-ndjson`) or an Arrow stream without compression, with
    columns `src`, `dst`, `t` and `features`. Events that are too old are listed as rejected, and the others
    are taken in; an invalid batch is refused as a whole.
    """
    name = _batch_name(batch_id, idempotency_key)
    kind, body = media_type(request), await read_body(request, service.settings)
    receipt = await service.workers.write(partial(_observe, service, kind, body, name))
    return receipt


def _observe(service: Service, kind: str, body: bytes, batch_id: str | None) -> ReceiptAnswer:
    table = bodies.parse_events(kind, body, service.settings.max_batch)
    receipt = service.engine.observe(table, batch_id)
    service.metrics.count_events(receipt)
    return ReceiptAnswer(
        accepted=receipt.accepted,
        rejected=[RejectedEvent(row=one.row, reason=one.reason) for one in receipt.rejected],
        repeated=receipt.repeated,
        last_time=receipt.last_time,
        last_time_date=service.engine.date_of(receipt.last_time),
    )


def _batch_name(batch_id: str | None, key: str | None) -> str | None:
    if None not in (batch_id, key) and batch_id != key:
        detail = "batch_id and Idempotency-Key differ; send one of them."
        raise RequestError(HTTPStatus.UNPROCESSABLE_ENTITY, detail)
    return key if batch_id is None else batch_id


@router.post("/score", openapi_extra=PAIR_BODY, summary="Score pairs")
async def score(service: CurrentService, request: Request) -> ScoresAnswer:
    """Score pairs of a source and a destination at a time, from the events strictly before it."""
    if media_type(request) != bodies.JSON:
        detail = f"Send pairs with the Content-Type {bodies.JSON}."
        raise RequestError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, detail)
    body = await read_body(request, service.settings)
    return await service.workers.read(partial(_score, service, body))


def _score(service: Service, body: bytes) -> ScoresAnswer:
    pairs = _parse_pairs(body)
    sizes = len(pairs.src), len(pairs.dst)
    if sizes[0] != sizes[1] and 1 not in sizes:
        detail = f"src has {sizes[0]:,} ids and dst {sizes[1]:,}; give as many, or one on a side."
        raise RequestError(HTTPStatus.UNPROCESSABLE_ENTITY, detail)
    bodies.check_batch(max(sizes), service.settings.max_batch, "pairs")
    size = max(sizes)
    src, dst = (ids if len(ids) == size else ids * size for ids in (pairs.src, pairs.dst))
    try:
        return _scored(service, service.engine.score(src, dst, pairs.at))
    except UnknownNodeError as error:  # 404 would mean the path
        raise RequestError(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from None


def _parse_pairs(body: bytes) -> Pairs:
    try:
        return _PAIRS.validate_json(body)
    except ValidationError as error:
        found = bodies.errors_in_body(error)
        raise RequestError(HTTPStatus.UNPROCESSABLE_ENTITY, "The body has no pairs.", found) from None


def _scored(service: Service, found: Scores) -> ScoresAnswer:
    missing = [None] * len(found)
    columns = (
        found.src.tolist(),
        found.dst.tolist(),
        found.score.tolist(),
        missing if found.probability is None else found.probability.tolist(),
        missing if found.surprise is None else found.surprise.tolist(),
    )
    rows = [
        PairScore(src=s, dst=d, score=finite(x), probability=finite(p), surprise=finite(b))
        for s, d, x, p, b in zip(*columns, strict=True)
    ]
    at = found.t[0].item()
    return ScoresAnswer(at=at, at_date=service.engine.date_of(at), scores=rows)
