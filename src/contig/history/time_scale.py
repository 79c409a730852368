"""The scale of time in a stream, measured on its training events.

Streams count time in seconds, nanoseconds or days, from 1970 or from anything. A model that takes its scale
from here computes the same whatever the unit and the origin.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from contig.history.index import History
from contig.kernels.segments import Segments, concatenated_ranges, node_ranges

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
        segments = history.segments
        if not int(segments.length.sum()):
            return cls()
        with history.read_in_order():
            found = _intervals(segments)
        count = len(found)
        if not count:
            found = _positive(history.events["t"][history.event_indices()].diff())
        percentiles = _percentiles(found) if len(found) else cls().percentiles
        first = segments.entry_time[segments.start[segments.length > 0]].min()
        return cls(percentiles, count, float(first))

    def percentile(self, percent: int) -> float:
        """Return the interval that ``percent`` of the intervals do not exceed, in the stream's unit."""
        return self.percentiles[percent]


def _intervals(segments: Segments) -> Tensor:
    """Return the positive intervals between consecutive entries of each node."""
    found, count = segments.entry_time.new_empty(int(segments.length.sum())), 0
    for first, last in node_ranges(segments.length):
        length = segments.length[first:last]
        times = segments.entry_time[concatenated_ranges(segments.start[first:last], length)]
        ends = torch.cumsum(length, 0)
        same = torch.ones_like(times, dtype=torch.bool)  # whether an entry follows another of its node
        same[ends[ends < len(times)]] = False
        part = _positive(times.diff()[same[1:]])
        found[count : count + len(part)] = part
        count += len(part)
    return found[:count]


def _positive(intervals: Tensor) -> Tensor:
    return intervals[intervals > 0]


def _percentiles(intervals: Tensor) -> tuple[float, ...]:
    places = np.arange(PERCENTILES) * (len(intervals) - 1) // (PERCENTILES - 1)
    if intervals.is_cuda:
        ascending = intervals.sort().values[torch.from_numpy(places).to(intervals.device)]
    else:  # in place: a sorted copy and its indices would take three times the memory
        intervals.numpy().partition(np.unique(places))
        ascending = intervals[torch.from_numpy(places)]
    return tuple(ascending.double().tolist())
