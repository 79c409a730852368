"""New events that a trained run knows already, or that are older than its last one: found and reported."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from contig.data.clock import TimeSpan
from contig.data.columns import Array, first_true
from contig.data.repeated_rows import numbered_rows
from contig.errors import ConfigError, DataError, unknown
from contig.runs.arrivals import Arrivals, NewEvents
from contig.wording import counted

log = logging.getLogger("contig")

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Place = Callable[[int], str]
Policy = Literal["reject", "accept"]  # what to do with late or repeated events
RepeatedPolicy = Literal["reject", "skip", "accept"]
KnownPolicy = Literal["reject", "skip"]  # where events are predicted or trained on, not added

SKIP = "repeated='skip' (--repeated skip)"
ACCEPT = "repeated='accept' (--repeated accept)"
ACCEPT_LATE = "late='accept' (--late accept)"


class OverlapError(DataError):
    """New events are known already, or older than the last known one."""


def known_positions(arrivals: Arrivals, new: NewEvents) -> Ints:
    """Return the position of the known event that each new one repeats, -1 for one that is not known.

    Events are the same if they have equal nodes, times and features. A known event accounts for one new
    event: if a run knows an event once and gets it three times, two of these are new.
    """
    found = np.full(len(new.t), -1)
    stream, rows = arrivals.stream, np.flatnonzero(new.t <= arrivals.stream.t[-1])
    ends = [(stream.src, new.src), (stream.dst, new.dst), (arrivals.times, new.t)]
    common = _common(ends, _events_at(arrivals, new.t[rows]), rows)
    if stream.edge_features is not None and new.features is not None:
        common = _common([*ends, (stream.edge_features, new.features)], common.positions, common.rows)
    at, matched = _paired(common.known, common.given)
    found[common.rows[matched]] = common.positions[at]
    return found


class _Common(NamedTuple):
    """Events that are among the known and the new ones, and a number for each that equal events share."""

    positions: Ints  # of the known ones
    rows: Ints  # of the new ones
    known: Ints
    given: Ints


def _common(columns: Sequence[tuple[Array, Array]], positions: Ints, rows: Ints) -> _Common:
    """Return which of the known events at ``positions`` and of the new ``rows`` are equal in all columns."""
    joined = [np.concatenate([old[positions], new[rows]]) for old, new in columns]
    known, given = np.split(numbered_rows(joined), [len(positions)])
    repeated, repeating = np.isin(known, given), np.isin(given, known)
    return _Common(positions[repeated], rows[repeating], known[repeated], given[repeating])


def _events_at(arrivals: Arrivals, times: Array) -> Ints:
    """Return the positions of the events at any of these times, in ascending order.

    All but the late ones are in time order, so that the cost does not grow with the number of events.
    """
    clock, late = arrivals.stream.t, arrivals.late
    distinct = np.unique(times)
    first, last = (np.searchsorted(clock, distinct, side=side) for side in ("left", "right"))
    sizes = last - first
    positions = np.repeat(last - np.cumsum(sizes), sizes) + np.arange(sizes.sum())
    if not len(late):
        return positions
    positions = positions[~np.isin(positions, late)]
    return np.sort(np.concatenate([positions, late[np.isin(arrivals.times[late], distinct)]]))


def _paired(known: Ints, given: Ints) -> tuple[Ints, Ints]:
    """Pair the first of each group in ``given`` with the first of it in ``known``, and so on."""
    factor = len(known) + len(given) + 1
    ours, theirs = (group * factor + _ranks(group) for group in (known, given))
    _, at, matched = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)
    return at, matched


def _ranks(groups: Ints) -> Ints:
    """Return how many earlier rows are in the group of each row."""
    order = np.argsort(groups, kind="stable")
    ranks = np.empty(len(groups), dtype=np.int64)
    ranks[order] = np.arange(len(groups)) - np.searchsorted(groups[order], groups[order])
    return ranks


def check_known_policy(repeated: str) -> None:
    """Raise ``ConfigError`` for anything but reject and skip."""
    if repeated not in get_args(KnownPolicy):
        raise ConfigError(unknown("value for repeated", str(repeated), get_args(KnownPolicy)))


def all_known(first: str) -> DataError:
    """Return the error for events of which none is left; ``first`` is the place of the first one."""
    return DataError(f"{first}: the run already knows this event and all others; none is new.")


def known_policy(repeated: RepeatedPolicy) -> Policy:
    """Return what to do with known events once those to skip are left out: the rest happened again."""
    return "reject" if repeated == "reject" else "accept"


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
            raise OverlapError(self._known_text() + self._late_text() + self._known_cure())
        same = "a known one" if self.known.sum() == 1 else "known ones"
        log.warning(
            f"{self._count(self.known)} the same as {same}, at {self._last}; they count as having happened "
            f"again. If they happened once, use {SKIP}."
        )

    def reject_late(self) -> None:
        """Reject events before the last known one."""
        older = self._older
        if self.late == "accept" or not older.any():
            return
        row = first_true(older)
        cure = "" if self.late is None else f" To take older ones into the history alone, use {ACCEPT_LATE}."
        raise OverlapError(
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
            f"{text} and {'the other one' if others == 1 else f'the other {others:,}'}."
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
            return f" To skip known events, use {SKIP}."
        cure = f" To skip known events, use {SKIP}; if they happened a second time, use {ACCEPT}"
        if self._late_text():
            return f"{cure}. To take older ones into the history alone, use {ACCEPT_LATE}."
        late = self.late == "reject" and (self.known & self._older).any()
        return f"{cure} with {ACCEPT_LATE}." if late else f"{cure}."
