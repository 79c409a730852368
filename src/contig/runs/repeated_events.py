"""New events that a trained run knows already, or that are older than its last one: found and reported."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from contig.data.clock import TimeSpan
from contig.data.columns import Array, first_true
from contig.errors import DataError
from contig.runs.arrivals import Arrivals, NewEvents
from contig.wording import counted

log = logging.getLogger("contig")

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Place = Callable[[int], str]
Policy = Literal["reject", "accept"]  # what to do with late or repeated events
RepeatedPolicy = Literal["reject", "skip", "accept"]

SKIP = "repeated='skip' (--repeated skip)"
ACCEPT = "repeated='accept' (--repeated accept)"
ACCEPT_LATE = "late='accept' (--late accept)"


def known_events(arrivals: Arrivals, new: NewEvents) -> Flags:
    """Return which new events are the same as known ones: equal nodes, time and features.

    A known event accounts for one new event: if a run knows an event once and gets it three times, two of
    these are new.
    """
    known = np.zeros(len(new.t), dtype=bool)
    rows = np.flatnonzero(new.t <= arrivals.stream.t[-1])
    if not len(rows):
        return known
    stream, candidates = arrivals.stream, _events_at(arrivals, new.t[rows])
    left = Counter(_keys(stream.src, stream.dst, arrivals.times, stream.edge_features, candidates))
    for row, key in zip(rows.tolist(), _keys(new.src, new.dst, new.t, new.features, rows), strict=True):
        if left[key]:
            left[key] -= 1
            known[row] = True
    return known


def _events_at(arrivals: Arrivals, times: Array) -> Ints:
    """Return the positions of the events at any of these times."""
    all_times = arrivals.times
    first = int(np.searchsorted(all_times, times.min())) if arrivals.happened is None else 0
    return first + np.flatnonzero(np.isin(all_times[first:], times))


def _keys(src: Ints, dst: Ints, t: Array, features: Array | None, rows: Ints) -> list[tuple[Any, ...]]:
    """Return what makes events the same."""
    values = [b""] * len(rows) if features is None else [row.tobytes() for row in features[rows]]
    return list(zip(src[rows].tolist(), dst[rows].tolist(), t[rows].tolist(), values, strict=True))


@dataclass(frozen=True)
class Overlap:
    """How new events overlap the events of a run; rows are in the order of the file.

    ``late`` is the policy for older events, None for a caller that offers no policies.
    """

    span: TimeSpan  # of the run's events
    t: Array
    known: Flags
    place: Place
    late: Policy | None

    def reject_known(self) -> None:
        """Reject known events, unless they may have happened again: some of those at the last known time."""
        if not self.known.any():
            return
        if self.known.all() or (self.known & self._older).any():
            raise DataError(self._known_text() + self._late_text() + self._known_cure())
        cure = "leave them out of the file" if self.late is None else f"use {SKIP}"
        log.warning(
            f"{self._count(self.known)} the same as known events, at {self._last}; they count as having "
            f"happened again. If they happened once, {cure}."
        )

    def reject_late(self) -> None:
        """Reject events before the last known one."""
        older = self._older
        if self.late == "accept" or not older.any():
            return
        row = first_true(older)
        cure = "" if self.late is None else f" To take older ones into the history alone, use {ACCEPT_LATE}."
        raise DataError(
            f"{self.place(row)}: t={self._written(row)} is before the last event that the run knows, at "
            f"{self._last} ({self._count(older)} older). New events must come in time order.{cure}"
        )

    @property
    def _older(self) -> Flags:
        older: Flags = self.t < self.span.last
        return older

    @property
    def _last(self) -> str:
        return self.span.written(self.span.last)

    def _written(self, row: int) -> str:
        return self.span.written(self.t[row].item())

    def _count(self, flags: Flags) -> str:
        """Return ``3 of 9 events are`` or ``1 of 9 events is``."""
        found = int(flags.sum())
        return f"{found:,} of {counted(len(flags), 'event')} {'is' if found == 1 else 'are'}"

    def _known_text(self) -> str:
        row, others = first_true(self.known), len(self.t) - 1
        text = f"{self.place(row)}: the run already knows this event (t={self._written(row)})"
        if not self.known.all():
            return f"{text}. {self._count(self.known)} known."
        return (
            f"{text} and {'the other one' if others == 1 else f'all {others:,} others'}."
            if others
            else f"{text}."
        )

    def _late_text(self) -> str:
        """Return how many events are new, but late, if these are rejected."""
        late = self._older & ~self.known
        if self.late == "accept" or not late.any():
            return ""
        return f" {self._count(late)} new, but older than the last known one, at {self._last}."

    def _known_cure(self) -> str:
        if self.late is None:
            return " Leave the known ones out."
        cure = f" To skip known events, use {SKIP}; if they happened a second time, {ACCEPT}"
        if self._late_text():
            return f"{cure}. To take older ones into the history alone, use {ACCEPT_LATE}."
        late = self.late == "reject" and (self.known & self._older).any()
        return f"{cure} with {ACCEPT_LATE}." if late else f"{cure}."
