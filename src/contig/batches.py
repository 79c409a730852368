"""How a stream is walked: score a batch, then observe what lies strictly before the next one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from contig.errors import ConfigError
from contig.events import Array


class Step(NamedTuple):
    """One batch ``[start, stop)`` to score; afterwards the events ``[seen, see)`` are observed."""

    start: int
    stop: int
    seen: int
    see: int


def schedule(times: Array, batch_size: int) -> list[Step]:
    """Batches of ``batch_size`` events that never let a state know an event of the query's own time.

    Where a batch ends between events of one time, those events are scored as they come but observed
    only once time has moved on; everything is observed in the end.
    """
    if batch_size < 1:
        raise ConfigError(f"batch_size={batch_size}: a batch needs at least one event.")
    if not len(times):
        return []
    starts = np.arange(0, len(times), batch_size)
    stops = np.minimum(starts + batch_size, len(times))
    see = np.full(len(starts), len(times))
    see[:-1] = np.searchsorted(times, times[stops[:-1]], side="left")
    seen = np.concatenate([[0], see[:-1]])
    rows = zip(starts.tolist(), stops.tolist(), seen.tolist(), see.tolist(), strict=True)
    return [Step(*row) for row in rows]
