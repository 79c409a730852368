"""The scale of time in a stream, measured on its training events.

Streams count time in seconds, nanoseconds or days, from 1970 or from anything. A model that takes its scale
from here computes the same whatever the unit and the origin.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from contig.history.index import History
from contig.kernels.segments import concatenated_ranges

PERCENTILES = 101  # 0, 1, ..., 100


@dataclass(frozen=True)
class TimeScale:
    """Percentiles of the positive intervals between consecutive events of the same node.

    Each percentile is one of the intervals: nothing is interpolated, so that in a stream whose times are
    multiplied by a number all of them are multiplied by it, exactly. ``count`` is the number of intervals.
    It is 0 if no node has events at two different times; then the intervals between consecutive events of
    the stream are used, and 1 if all events have the same time. ``start`` is the time of the first event.
    """

    percentiles: tuple[float, ...] = (1.0,) * PERCENTILES
    count: int = 0
    start: float = 0.0

    @classmethod
    def of(cls, history: History) -> TimeScale:
        """Measure the events of a history; for a model, those of training only."""
        nodes, times = _entries(history)
        if not len(times):
            return cls()
        found = _positive(times.diff()[nodes[1:] == nodes[:-1]])
        count = len(found)
        if not count:
            found = _positive(history.events["t"][history.event_indices()].diff())
        percentiles = _percentiles(found) if len(found) else cls().percentiles
        return cls(percentiles, count, float(times.min()))

    def percentile(self, percent: int) -> float:
        """Return the interval that ``percent`` of the intervals do not exceed, in the stream's unit."""
        return self.percentiles[percent]


def _entries(history: History) -> tuple[Tensor, Tensor]:
    """Return the node and the time of every entry, by node and then in time order."""
    segments = history.segments
    entries = concatenated_ranges(segments.start, segments.length)
    nodes = torch.arange(len(segments.length), device=entries.device).repeat_interleave(segments.length)
    return nodes, segments.entry_time[entries]


def _positive(intervals: Tensor) -> Tensor:
    return intervals[intervals > 0]


def _percentiles(intervals: Tensor) -> tuple[float, ...]:
    ascending = intervals.sort().values
    place = torch.arange(PERCENTILES, device=ascending.device) * (len(ascending) - 1) // (PERCENTILES - 1)
    return tuple(ascending[place].double().tolist())
