"""Arrays and node ids that grow at the end, at a cost that does not depend on their length."""

from __future__ import annotations

import logging
from collections.abc import Callable, MutableMapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from contig.data.columns import Array, first_true, frozen
from contig.data.ids import NodeIds, SortedIndex, TextIds, distinct_ids
from contig.errors import DataError
from contig.wording import counted

log = logging.getLogger("contig")

Ints = NDArray[np.int64]


class GrowingArray:
    """A numpy array to which rows are added in amortized O(1) each; earlier ``values`` stay valid."""

    def __init__(self, values: Array) -> None:
        self._memory, self._count = values, len(values)

    @property
    def values(self) -> Array:
        """The rows so far, read-only."""
        return frozen(self._memory[: self._count])

    def append(self, rows: Array) -> None:
        """Add rows; text that is longer than any before makes all of them wider."""
        end = self._count + len(rows)
        kind = np.promote_types(self._memory.dtype, rows.dtype)
        if end > len(self._memory) or kind != self._memory.dtype or not self._memory.flags.writeable:
            longer = np.zeros((max(end, 2 * self._count), *self._memory.shape[1:]), kind)
            longer[: self._count] = self._memory[: self._count]
            self._memory = longer
        self._memory[self._count : end] = rows
        self._count = end


class NumberedEvents(NamedTuple):
    """Events by internal ids, and the nodes that ``GrowingIds`` does not know yet."""

    src: Ints
    dst: Ints
    labels: list[int | str]  # of the new nodes, in the order of their numbers
    is_dst: list[bool] | None


class GrowingIds:
    """Node ids to which nodes are added; ``ids`` is the latest version, and earlier ones stay valid."""

    def __init__(self, ids: NodeIds) -> None:
        self.ids = ids
        self._labels = GrowingArray(ids.labels)
        self._is_dst = None if ids.is_dst is None else GrowingArray(ids.is_dst)
        known = ids.index
        self._index: MutableMapping[tuple[bool, int | str], int]
        self._index = known.extended() if isinstance(known, SortedIndex) else dict(known)
        self._first = ids

    @property
    def sides_share_labels(self) -> bool:
        """Whether labels say nothing about the side (see ``NodeIds``), judged before nodes were added."""
        return self._first.sides_share_labels

    def number(self, src: Ints | TextIds, dst: Ints | TextIds) -> NumberedEvents:
        """Assign numbers to the ends of events, to unknown nodes in the order of their first events.

        This changes nothing; ``add`` makes the new nodes known.
        """
        ids = self.ids
        names = [_named(ids, column) for column in (src, dst)]
        rows = [
            np.array([ids.number_of(x, dst=bool(d)) for x in of[0]], dtype=np.int64)[of[1]]
            for d, of in enumerate(names)
        ]
        new: dict[tuple[bool, int | str], int] = {}
        for event in np.flatnonzero((rows[0] < 0) | (rows[1] < 0)).tolist():
            for side, (labels, codes) in enumerate(names):
                if rows[side][event] < 0:
                    key = (bool(side) and ids.bipartite, labels[codes[event]])
                    rows[side][event] = new.setdefault(key, len(ids) + len(new))
        is_dst = [dst for dst, _ in new] if ids.bipartite else None
        return NumberedEvents(rows[0], rows[1], [label for _, label in new], is_dst)

    def add(self, labels: list[int | str], is_dst: list[bool] | None) -> None:
        """Add nodes at the end."""
        if not labels:
            return
        sides = [False] * len(labels) if is_dst is None else is_dst
        first = len(self.ids)
        self._index.update({key: first + i for i, key in enumerate(zip(sides, labels, strict=True))})
        self._labels.append(np.array(labels, dtype=None if self.ids.labels.dtype.kind == "U" else np.int64))
        if self._is_dst is not None:
            self._is_dst.append(np.array(is_dst, dtype=bool))
        known = None if self._is_dst is None else self._is_dst.values
        self.ids = NodeIds(self._labels.values, known, self._index)


class _OtherSide(NamedTuple):
    """Which events name a node that is known on the other side only, as ``[events]`` for each column."""

    src: NDArray[np.bool_]
    dst: NDArray[np.bool_]


def _on_other_side(known: GrowingIds, events: NumberedEvents) -> _OtherSide | None:
    """Return where sides are swapped; None if that cannot be determined, or where none are."""
    ids = known.ids
    if not ids.bipartite or not events.labels:
        return None
    sides = zip(events.labels, events.is_dst or (), strict=True)
    elsewhere = np.array([ids.number_of(label, dst=not dst) >= 0 for label, dst in sides])
    if not elsewhere.any() or known.sides_share_labels:
        return None
    found = [np.zeros(len(column), dtype=bool) for column in (events.src, events.dst)]
    for flags, column in zip(found, (events.src, events.dst), strict=True):
        new = column >= len(ids)
        flags[new] = elsewhere[column[new] - len(ids)]
    return _OtherSide(*found)


def reject_other_side(known: GrowingIds, pairs: NumberedEvents, place: Callable[[int], str]) -> None:
    """Reject pairs to score with a source that is known as a destination only, or the reverse."""
    if (found := _on_other_side(known, pairs)) is not None:
        raise DataError(_swapped(known.ids, pairs, found.src | found.dst, found, place))


def reject_swapped(known: GrowingIds, events: NumberedEvents, place: Callable[[int], str]) -> None:
    """Reject events if the columns of sources and destinations seem to be swapped.

    They seem so if more events have both ends known on the other side than on their own. In a stream of which
    all nodes happened to be on one side so far, such an event is possible, but among others; and a single end
    may be a new node that has the id of another one (see ``warn_of_other_side``).
    """
    found, own = _on_other_side(known, events), (events.src < len(known.ids)) & (events.dst < len(known.ids))
    if found is not None and (both := found.src & found.dst).sum() > own.sum():
        raise DataError(_swapped(known.ids, events, both, found, place))


def warn_of_other_side(known: GrowingIds, events: NumberedEvents, place: Callable[[int], str]) -> None:
    """Warn of new nodes that have the id of a node on the other side."""
    if (found := _on_other_side(known, events)) is not None:
        log.warning(_swapped(known.ids, events, found.src | found.dst, found, place))


def _swapped(
    ids: NodeIds,
    events: NumberedEvents,
    wrong: NDArray[np.bool_],
    found: _OtherSide,
    place: Callable[[int], str],
) -> str:
    row = first_true(wrong)
    dst = not found.src[row]
    label = events.labels[(events.dst if dst else events.src)[row] - len(ids)]
    known, here = ("source", "destination") if dst else ("destination", "source")
    more = f" ({int(wrong.sum()):,} of {counted(len(wrong), 'row')} like this)" if len(wrong) > 1 else ""
    return (
        f"{place(row)}: node {label!r} is a {known} in this stream, but a {here} here{more}. Are the columns "
        "swapped? Name them with src= and dst= (--src, --dst). Where a node can be on both sides, train "
        "with bipartite=False (--unipartite)."
    )


def _named(ids: NodeIds, column: Ints | TextIds) -> tuple[list[int | str], Ints]:
    """Return the distinct labels of a column, in the type of the known ones, and the position of each row."""
    labels, codes = distinct_ids(column)
    if ids.labels.dtype.kind == "U":
        return [str(label) for label in labels], codes
    if isinstance(column, TextIds):
        raise DataError(
            f"The ids of this run are whole numbers such as {ids.labels[0]}, but the new events have "
            f"{labels[0]!r}; check the columns."
        )
    return labels, codes
