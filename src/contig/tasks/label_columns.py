"""What is known about an event just before it happens: columns for a decision about its label.

Everything is counted from events strictly before the event's time; a label counts once it is known, which is
strictly more than ``delay`` after its own event. Sums are taken over fixed-point numbers: these are exact, so
that no column changes by a single bit when events or labels at or after its time change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from contig.data.columns import Array
from contig.data.validation import UNKNOWN_LABEL

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

UNIT = 2.0**-20  # of fixed-point numbers
LARGEST = 64.0  # deviations; what is further away counts as this
MOST_FEATURES = 16  # numbers that are compared with running means
PARTNERS = 12  # last partners whose own past is looked at
FEW = 3.0  # unknown partners that every node is counted to have: a share of one is no share


@dataclass(frozen=True, eq=False)
class LabeledEvents:
    """Events in time order; every column is ``[events]``.

    ``label`` is 1, 0 or ``UNKNOWN_LABEL``. ``features`` is ``[events, width]``; those at ``numeric`` are
    standardized numbers, which are compared with the means of both ends.
    """

    src: Ints
    dst: Ints
    t: Array
    label: Ints
    features: NDArray[np.float32]
    feature_names: tuple[str, ...]
    numeric: Ints

    def __len__(self) -> int:
        return len(self.src)


class LabelColumns(NamedTuple):
    """Columns ``[rows, columns]`` with their names; NaN where there is nothing to know yet."""

    names: tuple[str, ...]
    values: NDArray[np.float32]


def simple_columns(events: LabeledEvents, rows: Ints, delay: float) -> LabelColumns:
    """Return what is known about both ends of some events: their features, counts, means and labels."""
    clock = _Clock.of(events.t, delay)
    columns: dict[str, Floats] = {}
    for i, name in enumerate(events.feature_names):
        columns[_free_name(name, columns)] = events.features[rows, i].astype(np.float64)
    nodes, pairs = _Past.of_nodes(events, clock), _Past.of_pairs(events, clock)
    src, dst = events.src[rows], events.dst[rows]
    columns |= _end_columns("source", nodes, src, events, rows, clock)
    columns |= _end_columns("destination", nodes, dst, events, rows, clock)
    columns |= _end_columns("pair", pairs, pairs.keys_of(src, dst), events, rows, clock)
    return _joined(columns)


def graph_columns(events: LabeledEvents, rows: Ints, delay: float) -> LabelColumns:
    """Return what is known about the neighbors of both ends: whether they had positive labels.

    A source is marked once a label 1 of it is known. The share of marked sources among all that met a node
    is that node's; the source of the event itself does not count.
    """
    clock = _Clock.of(events.t, delay)
    marked = _Marked.of(events, clock)
    nodes = _Past.of_nodes(events, clock)
    src, dst, rank = events.src[rows], events.dst[rows], clock.rank[rows]
    columns = {"marked sources of the destination": marked.share(src, dst, rank)}
    for name, node in (("source", src), ("destination", dst)):
        partner, known = nodes.partners(node, rank, PARTNERS)
        partners, sources, ranks = partner.ravel(), np.repeat(src, PARTNERS), np.repeat(rank, PARTNERS)
        share = np.where(known, marked.share(sources, partners, ranks).reshape(known.shape), np.nan)
        columns |= _summaries(f"marked sources of partners of the {name}", share)
        found = nodes.labels(partners, np.repeat(clock.known[rows], PARTNERS))
        rate = np.where(known, (found.positives / (found.labels + FEW)).reshape(known.shape), np.nan)
        columns |= _summaries(f"labels of partners of the {name}", rate)
    return _joined(columns)


def _free_name(name: str, taken: dict[str, Floats]) -> str:
    """Return a name that no column has yet; names of features are the user's and may be equal."""
    free, number = name, 2
    while free in taken:
        free, number = f"{name} ({number})", number + 1
    return free


def _joined(columns: dict[str, Floats]) -> LabelColumns:
    return LabelColumns(tuple(columns), np.stack(list(columns.values()), axis=1).astype(np.float32))


def _summaries(name: str, values: Floats) -> dict[str, Floats]:
    """Return the mean, the maximum and the first of each row, the latest partner; NaN for an empty row."""
    count = (~np.isnan(values)).sum(axis=1)
    mean = np.divide(np.nansum(values, axis=1), count, out=np.full(len(values), np.nan), where=count > 0)
    largest = np.where(np.isnan(values), -np.inf, values).max(axis=1, initial=-np.inf)
    largest = np.where(count > 0, largest, np.nan)
    return {f"{name}, mean": mean, f"{name}, largest": largest, f"{name}, latest": values[:, 0]}


# --- one end of an event -----------------------------------------------------------------------------


def _end_columns(
    name: str, past: _Past, key: Ints, events: LabeledEvents, rows: Ints, clock: _Clock
) -> dict[str, Floats]:
    seen = past.before(key, clock.rank[rows])
    last = np.where(seen.events > 0, events.t[rows] - events.t[seen.last], 0).astype(np.float64)
    columns = {
        f"events of the {name}": np.log1p(seen.events),
        f"time since the {name}": np.where(seen.events > 0, np.log1p(last), np.nan),
    }
    if name != "pair":
        for i, position in enumerate(past.compared):
            columns |= _deviations(events, rows, position, seen.sums[:, 2 * i : 2 * i + 2], seen.events, name)
    known = past.labels(key, clock.known[rows])
    columns[f"known labels of the {name}"] = np.log1p(known.labels)
    columns[f"positive labels of the {name}"] = np.log1p(known.positives)
    rate = np.divide(known.positives, known.labels, out=np.full(len(rows), np.nan), where=known.labels > 0)
    columns[f"rate of positive labels of the {name}"] = rate
    return columns


def _deviations(
    events: LabeledEvents, rows: Ints, position: int, sums: Ints, count: Ints, name: str
) -> dict[str, Floats]:
    """Compare a number with the mean and the deviation of the same number before."""
    value = events.features[rows, position].astype(np.float64)
    some = np.maximum(count, 1)
    mean, square = sums[:, 0] * UNIT / some, sums[:, 1] * UNIT / some
    above = np.where(count > 0, value - mean, np.nan)
    spread = np.sqrt(np.maximum(square - mean**2, 0.0)) + 0.1  # a tenth of the deviation over all events
    feature = events.feature_names[position]
    return {
        f"{feature} above the mean of the {name}": above,
        f"{feature} in deviations of the {name}": np.where(count > 1, above / spread, np.nan),
    }


# --- the past of nodes and pairs ---------------------------------------------------------------------


class _Clock(NamedTuple):
    """Times by their rank among all different times."""

    times: Array  # the different times, ascending
    rank: Ints  # [events]: events with a smaller rank are before it
    known: Ints  # [events]: labels of events with a smaller rank are known at it
    delay: float | int

    @classmethod
    def of(cls, t: Array, delay: float) -> _Clock:
        # Between integer times part of a tick makes no difference, and float64 could not add it exactly.
        exact = math.floor(delay) if t.dtype.kind == "i" else delay
        times, rank = np.unique(t, return_inverse=True)
        known = rank if exact == 0 else np.searchsorted(times + exact, t, side="left")
        return cls(times, rank, known, exact)


class _Seen(NamedTuple):
    """What was seen of keys before times."""

    events: Ints
    sums: Ints  # [queries, sums]
    last: Ints  # the last event; any if there is none


class _Known(NamedTuple):
    """The numbers of known and of positive labels."""

    labels: Ints
    positives: Ints


@dataclass(frozen=True, eq=False)
class _Past:
    """Events by key (a node or a pair) and time; every end of an event has an entry."""

    place: Ints  # [entries] key and rank in one number, ascending
    ranks: int
    event: Ints  # [entries]
    other: Ints  # [entries] the node at the other end
    sums: Ints  # [entries + 1, sums] running sums, in the unit of fixed-point numbers
    label_sums: Ints  # [entries + 1, 2] running numbers of known and of positive labels
    compared: Ints  # positions of the features that are summed
    pairs: Ints  # the different pairs, ascending; empty for nodes
    nodes: int

    @classmethod
    def of_nodes(cls, events: LabeledEvents, clock: _Clock) -> _Past:
        back = np.flatnonzero(events.src != events.dst)
        event = np.concatenate([np.arange(len(events)), back])
        key = np.concatenate([events.src, events.dst[back]])
        other = np.concatenate([events.dst, events.src[back]])
        compared = events.numeric[:MOST_FEATURES]
        return cls._built(events, clock, key, event, other, compared, np.zeros(0, np.int64))

    @classmethod
    def of_pairs(cls, events: LabeledEvents, clock: _Clock) -> _Past:
        joined = _pair(events.src, events.dst, _node_count(events))
        pairs, key = np.unique(joined, return_inverse=True)
        nothing = np.zeros(0, np.int64)
        return cls._built(events, clock, key, np.arange(len(events)), events.dst, nothing, pairs)

    @classmethod
    def _built(
        cls,
        events: LabeledEvents,
        clock: _Clock,
        key: Ints,
        event: Ints,
        other: Ints,
        compared: Ints,
        pairs: Ints,
    ) -> _Past:
        ranks = len(clock.times) + 1
        place = key * ranks + clock.rank[event]
        order = np.lexsort((event, place))
        event = event[order]
        numbers = np.clip(events.features[:, compared].astype(np.float64), -LARGEST, LARGEST)
        values = np.stack([numbers, numbers**2], axis=2).reshape(len(numbers), -1)
        label = events.label[event]
        labels = np.stack([label != UNKNOWN_LABEL, label == 1], axis=1)
        return cls(
            place=place[order],
            ranks=ranks,
            event=event,
            other=other[order],
            sums=_running(np.rint(values / UNIT).astype(np.int64)[event]),
            label_sums=_running(labels.astype(np.int64)),
            compared=compared,
            pairs=pairs,
            nodes=_node_count(events),
        )

    def keys_of(self, src: Ints, dst: Ints) -> Ints:
        """Return the keys of pairs that occur."""
        return np.searchsorted(self.pairs, _pair(src, dst, self.nodes))

    def before(self, key: Ints, rank: Ints) -> _Seen:
        start, stop = self._span(key, rank)
        return _Seen(stop - start, self.sums[stop] - self.sums[start], self.event[np.maximum(stop - 1, 0)])

    def labels(self, key: Ints, rank: Ints) -> _Known:
        start, stop = self._span(key, rank)
        found = self.label_sums[stop] - self.label_sums[start]
        return _Known(found[:, 0], found[:, 1])

    def partners(self, key: Ints, rank: Ints, last: int) -> tuple[Ints, Flags]:
        """Return the last partners of nodes ``[queries, last]``, and which of them there are."""
        start, stop = self._span(key, rank)
        place = stop[:, None] - 1 - np.arange(last)
        return self.other[np.maximum(place, 0)], place >= start[:, None]

    def _span(self, key: Ints, rank: Ints) -> tuple[Ints, Ints]:
        first = key * self.ranks
        return np.searchsorted(self.place, first), np.searchsorted(self.place, first + rank)


def _running(values: Ints) -> Ints:
    return np.concatenate([np.zeros((1, values.shape[1]), np.int64), np.cumsum(values, axis=0)])


def _node_count(events: LabeledEvents) -> int:
    return int(max(events.src.max(initial=-1), events.dst.max(initial=-1))) + 1


def _pair(src: Ints, dst: Ints, nodes: int) -> Ints:
    return src * nodes + dst


@dataclass(frozen=True, eq=False)
class _Marked:
    """When sources first met destinations, and from when on each of these sources is marked."""

    pairs: Ints  # the different pairs, ascending
    met: Ints  # [pairs] rank of their first event
    marked: Ints  # [pairs] the rank before which it is not known that the source is marked
    meetings: Ints  # destination and ``met`` in one number, ascending
    markings: Ints  # destination and ``marked`` in one number, ascending
    ranks: int
    nodes: int

    @classmethod
    def of(cls, events: LabeledEvents, clock: _Clock) -> _Marked:
        nodes, ranks = _node_count(events), len(clock.times) + 1
        pairs, first = np.unique(_pair(events.src, events.dst, nodes), return_index=True)
        never = len(clock.times)
        positive = np.flatnonzero(events.label == 1)
        source, at = np.unique(events.src[positive], return_index=True)
        since = np.full(nodes, never)
        # A mark is seen from the first time after t + delay on, and its rank is the one before that.
        when = events.t[positive[at]] + clock.delay
        since[source] = np.searchsorted(clock.times, when, side="right") - 1
        met, dst = clock.rank[first], pairs % nodes
        marked = np.maximum(met, since[pairs // nodes])
        shown = dst * ranks
        return cls(pairs, met, marked, np.sort(shown + met), np.sort(shown + marked), ranks, nodes)

    def share(self, src: Ints, dst: Ints, rank: Ints) -> Floats:
        """Return the share of marked sources among those that met ``dst``, without ``src`` itself."""
        first = dst * self.ranks
        met = np.searchsorted(self.meetings, first + rank) - np.searchsorted(self.meetings, first)
        marked = np.searchsorted(self.markings, first + rank) - np.searchsorted(self.markings, first)
        key = _pair(src, dst, self.nodes)
        place = np.minimum(np.searchsorted(self.pairs, key), len(self.pairs) - 1)
        same = self.pairs[place] == key
        met = met - (same & (self.met[place] < rank))
        marked = marked - (same & (self.marked[place] < rank))
        share: Floats = marked / (met + FEW)
        return share
