"""A client for a running service."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx2 as httpx
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from contig.data.read_options import ReadOptions
from contig.errors import ContigError
from contig.serve.settings import TOKEN_VARIABLE

if TYPE_CHECKING:
    from contig.runs.answers import ScoreKind

ARROW = "application/vnd.apache.arrow.stream"


class ServiceError(ContigError):
    """The service refused a request or cannot be reached; ``status`` is 0 if there was no answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class RejectedEvent:
    """An event that the service did not take in: its row in the batch, and why."""

    row: int
    reason: str


@dataclass(frozen=True)
class SentBatch:
    """What became of a batch."""

    accepted: int
    rejected: tuple[RejectedEvent, ...]
    repeated: bool
    last_time: float | None
    last_time_date: str | None = None


@dataclass(frozen=True)
class ScoredPair:
    """The score of a pair; heuristics have neither a probability nor a surprise."""

    src: int | str
    dst: int | str
    score: float | None
    probability: float | None
    surprise: float | None


@dataclass(frozen=True)
class RecommendedNode:
    """A candidate and its score."""

    id: int | str
    score: float | None
    probability: float | None


class RecommendedNodes(list[RecommendedNode]):
    """Candidates, best first; ``cold_start`` and ``score_kind`` are as in ``contig.RecommendationList``."""

    def __init__(self, found: Iterable[RecommendedNode], *, cold_start: bool, score_kind: ScoreKind) -> None:
        super().__init__(found)
        self.cold_start, self.score_kind = cold_start, score_kind


@dataclass(frozen=True)
class TrajectoryPoints:
    """A node's embedding over time: times ``[steps]``, embeddings ``[steps, d]``, plane ``[steps, 2]``."""

    times: NDArray[Any]
    embeddings: NDArray[np.float32]
    plane: NDArray[np.float64]


class Client:
    """Sends events to a service and queries it; one connection is kept open.

    The token is that of the environment variable CONTIG_TOKEN unless it is given. Use it in a ``with`` block,
    or ``close`` it. Errors are ``ServiceError`` with the service's own message.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        token: str | None = None,
        timeout: float = 60.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        token = token or os.environ.get(TOKEN_VARIABLE)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.url = url.rstrip("/")
        self._http = httpx.Client(
            base_url=self.url, headers=headers, timeout=timeout, transport=transport, trust_env=False
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def observe(
        self, events: pa.Table | Iterable[Mapping[str, Any]], batch_id: str | None = None
    ) -> SentBatch:
        """Send events: a table with columns src, dst, t and features, or mappings with these keys.

        They are on disk when this returns. A batch with the same ``batch_id`` is taken in once.
        """
        table = events if isinstance(events, pa.Table) else None
        body = {"json": list(events)} if table is None else {"content": _arrow(table)}
        headers = {} if table is None else {"Content-Type": ARROW}
        if batch_id is not None:
            headers["Idempotency-Key"] = batch_id
        found = self._call("POST", "/events", headers=headers, **body)
        rejected = tuple(RejectedEvent(**one) for one in found.pop("rejected"))
        return SentBatch(rejected=rejected, **found)

    def embed(self, id: int | str, at: Any = None, side: str | None = None) -> NDArray[np.float32]:
        """Return the embedding of a node ``[d]`` at a time, by default just after the last event."""
        found = self._get(id, "embedding", at=at, side=side)
        return np.array(found["embedding"], dtype=np.float32)

    def recommend(
        self,
        id: int | str,
        at: Any = None,
        k: int = 10,
        *,
        exclude_seen: bool = False,
        side: str | None = None,
    ) -> RecommendedNodes:
        """Return the most likely partners of a node, best first; the most popular for an unknown node."""
        found = self._get(id, "recommendations", at=at, k=k, exclude_seen=exclude_seen, side=side)
        nodes = [RecommendedNode(**one) for one in found["recommendations"]]
        return RecommendedNodes(nodes, cold_start=found["cold_start"], score_kind=found["score_kind"])

    def trajectory(
        self, id: int | str, start: Any, end: Any, steps: int = 100, side: str | None = None
    ) -> TrajectoryPoints:
        """Return the embeddings of a node at equally spaced times."""
        found = self._get(id, "trajectory", **{"from": start, "to": end}, steps=steps, side=side)
        return TrajectoryPoints(
            times=np.array(found["times"]),
            embeddings=np.array(found["embeddings"], dtype=np.float32),
            plane=np.array(found["plane"]),
        )

    def score(
        self, src: int | str | Sequence[int | str], dst: int | str | Sequence[int | str], at: Any = None
    ) -> list[ScoredPair]:
        """Score pairs; a single id is paired with all of the other side."""
        body = {"src": _as_list(src), "dst": _as_list(dst), "at": _time(at)}
        found = self._call("POST", "/score", json=body)
        return [ScoredPair(**one) for one in found["scores"]]

    def recent_events(self, id: int | str, k: int = 20, side: str | None = None) -> list[dict[str, Any]]:
        """Return the last events of a node, newest first: mappings with src, dst and t."""
        found: list[dict[str, Any]] = self._get(id, "events", k=k, side=side)["events"]
        return found

    def find(self, prefix: str = "", limit: int = 20) -> list[int | str]:
        """Return ids that start with a prefix."""
        found = self._call("GET", "/nodes", params={"prefix": prefix, "limit": limit})
        return [node["id"] for node in found["nodes"]]

    def status(self) -> dict[str, Any]:
        """Return the size and throughput of the service, and how the events of its run were read."""
        return self._call("GET", "/status")

    def read_as(self) -> ReadOptions:
        """Return the columns, the date format and the features that the service's run was trained with.

        ``contig.read_events(FILE, usual=client.read_as())`` reads a file with them.
        """
        return ReadOptions.from_dict(self.status().get("read_as", {}))

    def is_ready(self) -> bool:
        """Return whether the service takes requests."""
        try:
            self._call("GET", "/readyz")
        except ServiceError:
            return False
        return True

    def _get(self, id: int | str, what: str, **query: Any) -> dict[str, Any]:
        given = {name: _time(value) for name, value in query.items() if value is not None}
        return self._call("GET", f"/nodes/{_quoted(id)}/{what}", params=given)

    def _call(self, method: str, path: str, **content: Any) -> dict[str, Any]:
        try:
            response = self._http.request(method, path, **content)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ServiceError(
                f"{self.url}: no answer from a service ({error or type(error).__name__}). "
                "Start one with 'contig serve RUN', and use the address that it prints."
            ) from None
        except (TypeError, ValueError) as error:
            raise ServiceError(f"{self.url}{path}: the request cannot be sent ({error}).") from None
        if not response.is_success:
            raise ServiceError(_detail(response), response.status_code)
        try:
            found: dict[str, Any] = response.json()
        except ValueError as error:
            raise ServiceError(f"{self.url}{path}: the answer is not JSON ({error}).") from None
        return found


def _quoted(id: int | str) -> str:
    """Return an id as part of a path; dots too, since '.' and '..' mean something in a path."""
    return quote(str(id), safe="").replace(".", "%2E")


def _time(value: Any) -> Any:
    """Return a time as the service reads it."""
    return value.isoformat() if hasattr(value, "isoformat") else value


def _as_list(ids: int | str | Sequence[int | str]) -> list[int | str]:
    return [ids] if isinstance(ids, int | str) else list(ids)


def _arrow(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _detail(response: httpx.Response) -> str:
    try:
        body = response.json()
        errors = "".join(f" {one['where']}: {one['message']}." for one in body.get("errors") or ())
        return f"{body['title']} ({response.status_code}): {body['detail']}{errors}"
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"The service answered {response.status_code} {response.reason_phrase}."
