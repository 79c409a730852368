"""Endpoints about one node: its embedding, recommendations, trajectory and events; and finding nodes."""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi import Path as PathParameter

from contig.live import PastEvent
from contig.runs.answers import RecommendationList
from contig.serve.paths import Path, Spacing, distances, follow, project
from contig.serve.schemas import (
    EmbeddingAnswer,
    EventsAnswer,
    NodeAnswer,
    NodesAnswer,
    PastEventAnswer,
    PathEvent,
    RecommendationsAnswer,
    RecommendedNode,
    SideName,
    TrajectoryAnswer,
)
from contig.serve.service import CurrentService, Service, check_limit

router = APIRouter(tags=["nodes"])

NodePath = Annotated[
    str, PathParameter(description="the node's id; a slash in it may be sent as it is or as %2F")
]
At = Annotated[
    str | None,
    Query(description="a number as in the events, or a date in ISO 8601; default: just after the last event"),
]
SideQuery = Annotated[
    SideName | None, Query(description="the node's side, if a bipartite stream has its id on both")
]
Count = Annotated[int, Query(alias="k", ge=1, description="how many, at most")]


@router.get("/nodes", summary="Find nodes by the beginning of their ids")
async def find(
    service: CurrentService,
    prefix: Annotated[str, Query(max_length=1000)] = "",
    limit: Annotated[int, Query(ge=1)] = 20,
) -> NodesAnswer:
    """List nodes whose ids start with a prefix."""
    check_limit("limit", limit, 1, service.settings.max_k)
    found = await service.workers.read(partial(service.engine.find, prefix, limit))
    return NodesAnswer(nodes=[NodeAnswer(id=node.id, side=node.side) for node in found])


@router.get("/nodes/{id:path}/embedding", summary="Embed a node")
async def embedding(
    service: CurrentService, id: NodePath, at: At = None, side: SideQuery = None
) -> EmbeddingAnswer:
    """Embed a node at a time, from the events strictly before it."""
    found = await service.workers.read(partial(service.engine.embed, [id], at, side=side))
    return EmbeddingAnswer.model_construct(
        id=id, **_times(service, found.at, found.last_event), embedding=found.vectors[0].tolist()
    )


@router.get("/nodes/{id:path}/recommendations", summary="Recommend partners to a node")
async def recommendations(
    service: CurrentService,
    id: NodePath,
    k: Count = 10,
    at: At = None,
    exclude_seen: Annotated[bool, Query(description="leave out partners the node has met")] = False,
    side: SideQuery = None,
) -> RecommendationsAnswer:
    """List the destinations that a source is most likely to meet at a time; `side=dst`: sources.

    A node that is unknown, or has no events before that time, gets the candidates with the most events
    (`cold_start`), and their numbers of events as scores (`score_kind`).
    """
    check_limit("k", k, 1, service.settings.max_k)
    call = partial(service.engine.recommend, id, at, k, exclude_seen, side=side or "src")
    return _recommended(service, await service.workers.read(call))


def _recommended(service: Service, found: RecommendationList) -> RecommendationsAnswer:
    rows = [
        RecommendedNode(id=one.node, score=finite(one.score), probability=finite(one.probability))
        for one in found
    ]
    return RecommendationsAnswer(
        id=found.node,
        **_times(service, found.at, found.last_event),
        cold_start=found.cold_start,
        score_kind=found.score_kind,
        recommendations=rows,
    )


def _times(service: Service, at: float, last_event: float | None) -> dict[str, Any]:
    """Return the time of an answer and that of the last event it knows, as numbers and as dates."""
    date_of = service.engine.date_of
    dates = {"at_date": date_of(at), "last_event_date": date_of(last_event)}
    return {"at": at, "last_event": last_event, **dates}


@router.get("/nodes/{id:path}/trajectory", summary="Follow a node through time")
async def trajectory(
    service: CurrentService,
    id: NodePath,
    start: Annotated[str, Query(alias="from", description="first time: a number or a date")],
    end: Annotated[str, Query(alias="to", description="last time: a number or a date")],
    steps: Annotated[int, Query(ge=2, description="number of points")] = 100,
    spacing: Annotated[
        Spacing,
        Query(
            description="`time`: equally spaced; `events`: as many points between any two events of the node"
        ),
    ] = "time",
    embeddings: Annotated[bool, Query(description="include the embeddings themselves")] = True,
    side: SideQuery = None,
) -> TrajectoryAnswer:
    """Embed a node at many times, between its events too, and project the path to a plane."""
    check_limit("steps", steps, 2, service.settings.max_steps)

    def answer() -> TrajectoryAnswer:
        path = follow(service.engine, id, side, (start, end), steps, spacing)
        return _path_answer(service, path, embeddings)

    return await service.workers.read(answer)


def _path_answer(service: Service, path: Path, with_embeddings: bool) -> TrajectoryAnswer:
    points, shares = project(path.embeddings)
    return TrajectoryAnswer.model_construct(
        id=path.node,
        times=path.times.tolist(),
        embeddings=path.embeddings.tolist() if with_embeddings else None,
        plane=points.tolist(),
        explained=shares.tolist(),
        moved=distances(path.embeddings).tolist(),
        events=[
            PathEvent(**_event(service, event), index=index)
            for event, index in zip(path.events, path.indices, strict=True)
        ],
    )


@router.get("/nodes/{id:path}/events", summary="List the last events of a node")
async def events(
    service: CurrentService, id: NodePath, k: Count = 20, side: SideQuery = None
) -> EventsAnswer:
    """List the last events of a node, newest first."""
    check_limit("k", k, 1, service.settings.max_k)
    found = await service.workers.read(partial(service.engine.recent_events, id, k, side=side))
    return EventsAnswer(id=id, events=[PastEventAnswer(**_event(service, event)) for event in found])


def _event(service: Service, event: PastEvent) -> dict[str, Any]:
    return {**event._asdict(), "t_date": service.engine.date_of(event.t)}


def finite(value: Any) -> float | None:
    """Return a number for JSON, which has neither infinity nor NaN."""
    return None if value is None or not math.isfinite(value) else float(value)
