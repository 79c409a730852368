"""What a live engine returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from contig.data.ids import Side

Time = int | float


class Rejection(NamedTuple):
    """An event that was not accepted: its row in the batch, counted from 0, and the reason."""

    row: int
    reason: str


@dataclass(frozen=True)
class Receipt:
    """What became of a batch of events; those accepted are on disk.

    ``repeated`` marks the receipt of a batch id that was known already: nothing happened this time.
    ``last_time`` is the time of the last event that the engine knew after the batch.
    """

    accepted: int
    rejected: list[Rejection]
    repeated: bool
    last_time: Time


@dataclass(frozen=True, eq=False)
class Embeddings:
    """The embeddings of nodes at one time; indexing gives the vector of a node.

    ``at`` is the time they are for, and ``last_event`` that of the last event they know, None if there is
    none.
    """

    ids: tuple[int | str, ...]
    vectors: NDArray[np.float32]  # [nodes, d]
    at: Time
    last_event: Time | None

    def __len__(self) -> int:
        return len(self.vectors)

    def __getitem__(self, row: int) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = self.vectors[row]
        return vector

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.vectors, dtype=dtype, copy=copy)


@dataclass(frozen=True, eq=False)
class LiveTrajectory:
    """The embedding of one node over time; ``last_event`` is the last event known when it was computed."""

    node: int | str
    times: NDArray[Any]  # [times]
    embeddings: NDArray[np.float32]  # [times, d]
    last_event: Time


class PastEvent(NamedTuple):
    """An event of a node, by the user's ids."""

    src: int | str
    dst: int | str
    t: Time


class FoundNode(NamedTuple):
    """A node that a search found; ``side`` is None unless the stream is bipartite."""

    id: int | str
    side: Side | None


@dataclass(frozen=True, kw_only=True)
class Status:
    """The size and the health of an engine.

    ``events`` are all events it knows, ``live_events`` those it accepted itself; of these,
    ``snapshot_events`` are in the newest snapshot, and ``snapshot_age_s`` is the time since it was taken or
    loaded. ``events_per_second`` is the mean of the last minute. ``read_as`` is how files are read, as in
    ``ReadOptions``: the columns, the date format and the features that the run was trained with.
    """

    model: str
    events: int
    live_events: int
    late_events: int
    nodes: int
    first_time: Time
    last_time: Time
    log_bytes: int
    snapshot_events: int
    snapshot_age_s: float | None
    snapshot_error: str | None
    uptime_s: float
    events_per_second: float
    read_as: dict[str, Any]
