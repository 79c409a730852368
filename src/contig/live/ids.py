"""The user's ids of a set of nodes that grows."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import repeat

from contig.data.ids import KIND_OF_SIDE, NodeIds, Side
from contig.errors import DataError, UnknownNodeError, did_you_mean

Id = int | str
LONGEST_SUGGESTED = 100  # characters of an id; longer ones get no suggestion
SHOWN = 100  # characters of an id in a message
SUGGESTED_FROM = 100  # ids that are compared with a mistyped one; a server has no time for all of them
UNSORTED = 4096  # new ids that a search scans one by one before they are sorted in


class NodeIndex:
    """Maps the user's ids to node numbers and back; new ids are numbered in the order in which they come.

    One thread adds ids; any number may look them up meanwhile.
    """

    def __init__(self, ids: NodeIds) -> None:
        self.numeric, self.bipartite = ids.labels.dtype.kind == "i", ids.bipartite
        self.labels: list[Id] = ids.labels.tolist()
        self.is_dst: list[bool] = [] if ids.is_dst is None else ids.is_dst.tolist()
        sides = self.is_dst or [False] * len(self.labels)
        # By side: a plain label is found faster among many than a pair.
        self._numbers: tuple[dict[Id, int], dict[Id, int]] = ({}, {})
        for number, (side, label) in enumerate(zip(sides, self.labels, strict=True)):
            self._numbers[side][label] = number
        self._sorted: tuple[int, list[tuple[str, int]]] = (0, [])  # how many nodes, and their ids in order

    def __len__(self) -> int:
        return len(self.labels)

    def number_of(self, label: Id, *, dst: bool) -> int:
        """Return the number of an id of the right type on one side, or -1."""
        return self._numbers[dst and self.bipartite].get(label, -1)

    def numbers_of(self, labels: Sequence[Id], *, dst: bool) -> list[int]:
        """Return the numbers of several ids, or -1."""
        return list(map(self._numbers[dst and self.bipartite].get, labels, repeat(-1)))

    def add(self, label: Id, *, dst: bool) -> int:
        """Assign the next number to a new id."""
        number = len(self.labels)
        self.labels.append(label)
        if self.bipartite:
            self.is_dst.append(dst)
        self._numbers[dst and self.bipartite][label] = number
        return number

    def truncate(self, size: int) -> None:
        """Forget the ids from a number on."""
        for number in range(size, len(self.labels)):
            del self._numbers[bool(self.is_dst) and self.is_dst[number]][self.labels[number]]
        del self.labels[size:], self.is_dst[size:]

    def side(self, number: int) -> Side | None:
        """Return the side of a node; None unless the stream is bipartite."""
        if not self.bipartite:
            return None
        return "dst" if self.is_dst[number] else "src"

    def find(self, label: Id, side: Side | None = None, *, below: int | None = None) -> int:
        """Return the number of a node; raise ``DataError`` if there is none or the id names two.

        Only nodes below a number count, if one is given.
        """
        typed = self._typed(label)
        limit = len(self) if below is None else below
        found = {
            number
            for one in (("src", "dst") if side is None else (side,))
            if typed is not None and 0 <= (number := self.number_of(typed, dst=one == "dst")) < limit
        }
        if len(found) > 1:
            raise DataError(
                f"Node {label!r} is both a source and a destination of this bipartite stream; choose one "
                "with side=src or side=dst."
            )
        if not found:
            where = f" as a {KIND_OF_SIDE[side]}" if side and self.bipartite else ""
            meant = self._suggestion(typed, limit)
            raise UnknownNodeError(
                f"Node {_shortened(label)} is not known{where}: no event has named it.{meant}"
            )
        return found.pop()

    def _suggestion(self, label: Id | None, below: int) -> str:
        """Return a question after text ids that may be meant: those with the longest common beginning."""
        if not isinstance(label, str) or len(label) > LONGEST_SUGGESTED:
            return ""
        for length in range(len(label) - 1, len(label) // 2 - 1, -1):
            if length and (found := self.by_prefix(label[:length], SUGGESTED_FROM, below)):
                return did_you_mean(label, dict.fromkeys(map(str, self.names(found))))
        return ""

    def _typed(self, label: Id) -> Id | None:
        """Return an id in the type of the others; ids in a URL or typed by hand arrive as text."""
        if isinstance(label, bool) or not isinstance(label, int | str):
            raise DataError(f"{label!r} is not a node id; ids are whole numbers or text.")
        if not self.numeric:
            return str(label)
        try:
            return int(label)
        except ValueError:
            return None

    def by_prefix(self, prefix: str, limit: int, below: int) -> list[int]:
        """Return up to ``limit`` nodes below a number whose ids start with a prefix, ordered by id."""
        if below - self._sorted[0] > UNSORTED:
            self._sorted = below, sorted((str(label), i) for i, label in enumerate(self.labels[:below]))
        count, in_order = self._sorted
        found: list[tuple[str, int]] = []
        at = bisect_left(in_order, (prefix,))
        while at < len(in_order) and len(found) < limit and in_order[at][0].startswith(prefix):
            found.append(in_order[at])
            at += 1
        found += [
            (str(label), i)
            for i, label in enumerate(self.labels[count:below], count)
            if str(label).startswith(prefix)
        ]
        return [i for _, i in sorted(found)[:limit]]

    def names(self, numbers: Sequence[int]) -> list[Id]:
        """Return the user's ids of nodes."""
        return [self.labels[i] for i in numbers]


def _shortened(label: Id) -> str:
    """Return an id for a message: all of it, or its beginning."""
    text = repr(label)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}... ({len(text):,} characters)"
