"""The bodies of requests and responses."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt, StrictStr, WithJsonSchema

from contig.runs.answers import ScoreKind

NodeId = Annotated[int, Field(strict=True, ge=-(2**63), lt=2**63)] | Annotated[StrictStr, Field(min_length=1)]
Finite = Annotated[StrictFloat, Field(allow_inf_nan=False)]
Number = StrictInt | Finite
# Beyond these, differences between times overflow.
Time = (
    Annotated[int, Field(strict=True, gt=-(2**62), lt=2**62)]
    | Annotated[float, Field(strict=True, gt=-(2.0**62), lt=2.0**62)]
    | StrictStr
)
# Checked by hand: an error for each of a million values would fill the memory.
Value = Annotated[Any, WithJsonSchema({"type": ["number", "string", "boolean", "null"]})]
SideName = Literal["src", "dst"]
# Times in answers are numbers as in the events; next to them is the date, if they are dates.
Date = Annotated[
    str | None, Field(description="the same as a date such as 2024-05-01T12:00:00Z, if it is one")
]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Event(_Body):
    """One interaction."""

    src: NodeId
    dst: NodeId
    t: Time = Field(
        description="a number in the unit of the training events, or a date in ISO 8601 or written as those"
    )
    features: Annotated[list[Number], Field(fail_fast=True)] | dict[StrictStr, Value] | None = Field(
        None,
        description="the run's features, if it has any: by name, null if missing; or a list in their order",
    )


class Pairs(_Body):
    """Pairs to score; a list with one id is paired with every id of the other."""

    src: list[NodeId] = Field(min_length=1, fail_fast=True)
    dst: list[NodeId] = Field(min_length=1, fail_fast=True)
    at: Time | None = Field(None, description="default: just after the last event")


class RejectedEvent(_Body):
    """An event that was not taken in."""

    row: int = Field(description="its place in the batch, from 0")
    reason: str


class ReceiptAnswer(_Body):
    """What became of a batch; accepted events are on disk."""

    accepted: int
    rejected: list[RejectedEvent]
    repeated: bool = Field(description="whether a batch with this id was taken in before")
    last_time: float | int | None = Field(description="time of the last event the service knows")
    last_time_date: Date


class EmbeddingAnswer(_Body):
    """A node's embedding, from the events strictly before a time."""

    id: int | str
    at: float | int
    at_date: Date
    last_event: float | int | None = Field(description="time of the last event the answer uses")
    last_event_date: Date
    embedding: list[float]


class RecommendedNode(_Body):
    """A candidate and its score, which is of the kind `score_kind`."""

    id: int | str
    score: float | None
    probability: float | None = Field(description="null for a heuristic and a cold start")


class RecommendationsAnswer(_Body):
    """The most likely partners of a node at a time, best first."""

    id: int | str
    at: float | int
    at_date: Date
    last_event: float | int | None = Field(description="time of the last event the answer uses")
    last_event_date: Date
    cold_start: bool = Field(
        description="the node is unknown or has no events yet: these are the most popular candidates"
    )
    score_kind: ScoreKind = Field(
        description="what scores are: `logit` of a learned model, `heuristic` (the score of one), or "
        "`events` (a cold start: the number of events of the candidate)"
    )
    recommendations: list[RecommendedNode]


class PastEventAnswer(_Body):
    """An event of a node."""

    src: int | str
    dst: int | str
    t: float | int
    t_date: Date


class PathEvent(PastEventAnswer):
    """An event of a node on its trajectory."""

    index: int = Field(description="the first point that knows the event; `steps` if there is none")


class TrajectoryAnswer(_Body):
    """A node's embedding at many times."""

    id: int | str
    times: list[float | int]
    embeddings: list[list[float]] | None = Field(description="`[steps][width]`; null with `embeddings=false`")
    plane: list[list[float]] = Field(
        description="the path on its first two principal components: `[steps][2]`"
    )
    explained: list[float] = Field(description="share of the variance of each component")
    moved: list[float] = Field(description="distance to the previous point, in all dimensions: `[steps]`")
    events: list[PathEvent] = Field(description="the node's events on the way, oldest first")


class EventsAnswer(_Body):
    """The last events of a node, newest first."""

    id: int | str
    events: list[PastEventAnswer]


class NodeAnswer(_Body):
    """A node whose id starts with the prefix."""

    id: int | str
    side: SideName | None = Field(description="its side, in a bipartite stream")


class NodesAnswer(_Body):
    """Nodes that a search found."""

    nodes: list[NodeAnswer]


class PairScore(_Body):
    """The score of a pair."""

    src: int | str
    dst: int | str
    score: float | None = Field(description="a logit, or the score of a heuristic")
    probability: float | None
    surprise: float | None = Field(description="-log2 of the probability, in bits")


class ScoresAnswer(_Body):
    """The scores of pairs, in the order of the request."""

    at: float | int
    at_date: Date
    scores: list[PairScore]


class ReadAs(_Body):
    """How the events of the run were read from a file; what is missing is detected."""

    src: str | None = Field(None, description="the column of the sources")
    dst: str | None = Field(None, description="the column of the destinations")
    t: str | None = Field(None, description="the column of the times")
    date_format: str | None = Field(None, description="how dates are written, if not in ISO 8601")
    features: list[str] | Literal[False] | None = Field(
        None, description="the columns of the features; false for a run without any"
    )


class StatusAnswer(_Body):
    """The size and the health of the service."""

    model: str
    events: int = Field(description="events of the training and since")
    live_events: int = Field(description="events since")
    late_events: int = Field(description="of these, events that came late and changed no state")
    nodes: int
    first_time: float | int
    first_time_date: Date
    last_time: float | int | None
    last_time_date: Date
    log_bytes: int
    snapshot_events: int = Field(description="live events in the newest snapshot")
    snapshot_age_s: float | None
    snapshot_error: str | None = Field(description="why the last snapshot failed")
    uptime_s: float
    events_per_second: float
    read_as: ReadAs


class HealthAnswer(_Body):
    """Whether the service is well."""

    status: Literal["ok"]
