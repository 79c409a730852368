"""Endpoints about one node: its embedding, recommendations, trajectory and events; and finding nodes."""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi import Path as PathParameter

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
from contig.serve.service import Here, check_limit

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
    here: Here,
    prefix: Annotated[str, Query(max_length=1000)] = "",
    limit: Annotated[int, Query(ge=1)] = 20,
) -> NodesAnswer:
    """List nodes whose ids start with a prefix."""
    check_limit("limit", limit, 1, here.settings.max_k)
    found = await here.workers.read(partial(here.engine.find, prefix, limit))
    return NodesAnswer(nodes=[NodeAnswer(id=node.id, side=node.side) for node in found])


@router.get("/nodes/{id:path}/embedding", summary="Embed a node")
async def embedding(here: Here, id: NodePath, at: At = None, side: SideQuery = None) -> EmbeddingAnswer:
    """Embed a node at a time, from the events strictly before it."""
    found = await here.workers.read(partial(here.engine.embed, [id], at, side=side))
    return EmbeddingAnswer.model_construct(
        id=id, at=found.at, last_event=found.last_event, embedding=found.vectors[0].tolist()
    )


@router.get("/nodes/{id:path}/recommendations", summary="Recommend partners to a node")
async def recommendations(
    here: Here,
    id: NodePath,
    k: Count = 10,
    at: At = None,
    exclude_seen: Annotated[bool, Query(description="leave out partners the node has met")] = False,
    side: SideQuery = None,
) -> RecommendationsAnswer:
    """List the destinations that a source is most likely to meet at a time; `side=dst`: sources."""
    check_limit("k", k, 1, here.settings.max_k)
    call = partial(here.engine.recommend, id, at, k, exclude_seen, side=side or "src")
    return _recommended(await here.workers.read(call))


def _recommended(found: RecommendationList) -> RecommendationsAnswer:
    rows = [
        RecommendedNode(id=one.node, score=finite(one.score), probability=finite(one.probability))
        for one in found
    ]
    return RecommendationsAnswer(
        id=found.node,
        at=found.at,
        last_event=found.last_event,
        cold_start=found.cold_start,
        recommendations=rows,
    )


@router.get("/nodes/{id:path}/trajectory", summary="Follow a node through time")
async def trajectory(
    here: Here,
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
    check_limit("steps", steps, 2, here.settings.max_steps)

    def answer() -> TrajectoryAnswer:
        path = follow(here.engine, id, side, (start, end), steps, spacing)
        return _path_answer(path, embeddings)

    return await here.workers.read(answer)


def _path_answer(path: Path, with_embeddings: bool) -> TrajectoryAnswer:
    points, shares = project(path.embeddings)
    return TrajectoryAnswer.model_construct(
        id=path.node,
        times=path.times.tolist(),
        embeddings=path.embeddings.tolist() if with_embeddings else None,
        plane=points.tolist(),
        explained=shares.tolist(),
        moved=distances(path.embeddings).tolist(),
        events=[
            PathEvent(src=event.src, dst=event.dst, t=event.t, index=index)
            for event, index in zip(path.events, path.indices, strict=True)
        ],
    )


@router.get("/nodes/{id:path}/events", summary="List the last events of a node")
async def events(here: Here, id: NodePath, k: Count = 20, side: SideQuery = None) -> EventsAnswer:
    """List the last events of a node, newest first."""
    check_limit("k", k, 1, here.settings.max_k)
    found = await here.workers.read(partial(here.engine.recent_events, id, k, side=side))
    return EventsAnswer(id=id, events=[PastEventAnswer(src=e.src, dst=e.dst, t=e.t) for e in found])


def finite(value: Any) -> float | None:
    """Return a number for JSON, which has neither infinity nor NaN."""
    return None if value is None or not math.isfinite(value) else float(value)
