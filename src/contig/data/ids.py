"""Node ids: the user's own, and the numbers 0 to n - 1 that everything else works with."""

from __future__ import annotations

from bisect import bisect_left
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contig.data.columns import Array, frozen
from contig.errors import DataError, UnknownNodeError, did_you_mean

Ints = NDArray[np.int64]
Side = Literal["src", "dst"]
KIND_OF_SIDE: dict[Side, str] = {"src": "source", "dst": "destination"}
SEARCHED = 20_000  # ids among which a mistyped one is looked for
COMPARED = 2**18  # labels on disk that are compared at a time


@dataclass(frozen=True, eq=False)
class NodeIds:
    """The map between the user's node ids and the internal ones.

    ``labels[i]`` is the user's id of internal node ``i`` (integers or strings). In a
    bipartite stream ``is_dst[i]`` says which side node ``i`` is on, and the same
    label may occur once on each side; otherwise ``is_dst`` is None.
    """

    labels: Array
    is_dst: NDArray[np.bool_] | None = None
    # Internal ids by side and label, shared between versions of ids that grow: it may know later nodes.
    shared_index: Mapping[tuple[bool, int | str], int] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def bipartite(self) -> bool:
        return self.is_dst is not None

    def find(self, label: int | str, side: Side | None = None) -> int:
        """Return the internal id of the user's node ``label``.

        ``side`` is needed only if a bipartite stream has the label on both sides.
        """
        label = _checked(label)
        found = {
            s: i
            for s in ("src", "dst")
            if side in (None, s) and (i := self._lookup(label, dst=s == "dst")) is not None
        }
        if len(set(found.values())) > 1:
            raise DataError(
                f"Node {label!r} is both a source and a destination of this bipartite stream; "
                "choose one with side='src' or side='dst'."
            )
        if not found:
            self._reject_other_side(label, side)
            where = f" as a {KIND_OF_SIDE[side]}" if side and self.bipartite else ""
            raise UnknownNodeError(
                f"Node {label!r} is not in this stream{where}; {self.examples(side)}."
                f"{self.suggestion(label, side)}"
            )
        return next(iter(found.values()))

    def _of_side(self, side: Side | None) -> Array:
        """Return the ids of one side, if there are two."""
        if side is None or self.is_dst is None:
            return self.labels
        labels: Array = self.labels[self.is_dst == (side == "dst")]
        return labels

    def examples(self, side: Side | None) -> str:
        """Say what the ids of one side look like."""
        return f"its ids look like {', '.join(map(repr, self._of_side(side)[:3].tolist()))}"

    def suggestion(self, label: int | str, side: Side | None) -> str:
        """Return a question after text ids that may be meant instead of an unknown one."""
        if self.labels.dtype.kind == "i":
            return ""
        return did_you_mean(str(label), list(dict.fromkeys(self._of_side(side)[:SEARCHED].tolist())))

    def has(self, label: int | str) -> bool:
        """Return whether the stream has a node with this id, on either side."""
        label = _checked(label)
        return any(self._lookup(label, dst) is not None for dst in (False, True))

    def find_rows(self, column: Ints | TextIds, side: Side | None, place: Callable[[int], str]) -> Ints:
        """Return the internal ids of a whole column; an error names the place of the first unknown id."""
        found = self.numbers_of(column, side)
        if (found < 0).any():
            row = int(np.argmax(found < 0))
            labels, codes = distinct_ids(column)
            try:
                self.find(labels[codes[row]], side)
            except DataError as error:
                raise type(error)(f"{place(row)}: {error}") from None
        return found

    def numbers_of(self, column: Ints | TextIds, side: Side | None) -> Ints:
        """Return the internal ids of a whole column, -1 where ``find`` would raise."""
        labels, codes = distinct_ids(column)
        return np.array([self._lookup_on(label, side) for label in labels], dtype=np.int64)[codes]

    def number_of(self, label: int | str, *, dst: bool) -> int:
        """Return the internal id of a node on one side, or -1 if there is none."""
        found = self._lookup(label, dst)
        return -1 if found is None else found

    def _lookup_on(self, label: int | str, side: Side | None) -> int:
        """Return an internal id, or -1 where ``find`` would raise."""
        sides = (side == "dst",) if side else (False, True)
        found = {i for dst in sides if (i := self._lookup(label, dst)) is not None}
        return found.pop() if len(found) == 1 else -1

    def _reject_other_side(self, label: int | str, side: Side | None) -> None:
        """Say so where a node exists, but not on the side on which it was looked for."""
        if side is not None and self._lookup(label, dst=side == "src") is not None:
            other = KIND_OF_SIDE["dst" if side == "src" else "src"]
            raise DataError(f"Node {label!r} is a {other} in this stream; expected a {KIND_OF_SIDE[side]}.")

    def _lookup(self, label: int | str, dst: bool) -> int | None:
        if self.labels.dtype.kind == "i" and isinstance(label, str):
            try:  # ids typed on a command line arrive as text
                label = int(label)
            except ValueError:
                return None
        elif self.labels.dtype.kind == "U":  # a column of text ids may hold whole numbers only
            label = str(label)
        found = self.index.get((dst and self.bipartite, label))
        return found if found is not None and found < len(self) else None

    @cached_property
    def sides_share_labels(self) -> bool:
        """Return whether labels say nothing about the side, as where users and items are counted from 1.

        That is so where a tenth of the labels of the smaller side name nodes of the other side, too: a few
        may be mistakes. This reads all labels.
        """
        if self.is_dst is None:
            return False
        sources, destinations = self.labels[~self.is_dst], self.labels[self.is_dst]
        smaller = min(len(sources), len(destinations))
        return 10 * len(np.intersect1d(sources, destinations)) >= smaller > 0

    @cached_property
    def index(self) -> Mapping[tuple[bool, int | str], int]:
        """Internal ids by side (True for a destination of a bipartite stream) and label."""
        if self.shared_index is not None:
            return self.shared_index
        if isinstance(self.labels, np.memmap):
            return SortedIndex.of(self.labels, self.is_dst)
        dst_side = self.is_dst if self.is_dst is not None else np.zeros(len(self), dtype=bool)
        pairs = zip(dst_side.tolist(), self.labels.tolist(), strict=True)
        return {pair: i for i, pair in enumerate(pairs)}


class SortedIndex(Mapping[tuple[bool, int | str], int]):
    """Internal ids by side and label, found by bisection in labels on disk instead of a table in memory.

    Labels are ascending, those of the sources of a bipartite stream before those of its destinations. Nodes
    that were added to a stream later, and are in no order, have a table.
    """

    def __init__(self, labels: Array, sources: int, later: Mapping[tuple[bool, int | str], int]) -> None:
        self._labels, self._sources, self._later = labels, sources, later
        self._sorted = len(labels) - len(later)

    @classmethod
    def of(cls, labels: Array, is_dst: NDArray[np.bool_] | None) -> SortedIndex:
        """Index all labels; ``is_dst`` is that of ``NodeIds``."""
        ordered = _count_ordered(labels, is_dst)
        sides = np.zeros(len(labels), dtype=bool) if is_dst is None else is_dst
        later = zip(sides[ordered:].tolist(), labels[ordered:].tolist(), strict=True)
        sources = ordered - int(np.count_nonzero(sides[:ordered]))
        return cls(labels, sources, {pair: i for i, pair in enumerate(later, start=ordered)})

    def __getitem__(self, key: tuple[bool, int | str]) -> int:
        dst, label = key
        first, end = (self._sources, self._sorted) if dst else (0, self._sources)
        at = bisect_left(self._labels, label, first, end)
        return self._later[key] if at == end or self._labels[at] != label else at

    def __iter__(self) -> Iterator[tuple[bool, int | str]]:
        yield from ((i >= self._sources, self._labels[i].item()) for i in range(self._sorted))
        yield from self._later

    def __len__(self) -> int:
        return len(self._labels)

    def extended(self) -> ChainMap[tuple[bool, int | str], int]:
        """Return a map to which further ids can be added."""
        return ChainMap({}, cast(MutableMapping[tuple[bool, int | str], int], self))


def _count_ordered(labels: Array, is_dst: NDArray[np.bool_] | None) -> int:
    """Count the first nodes that are in order: by side, then by label."""
    for first in range(0, len(labels) - 1, COMPARED):
        part = slice(first, first + COMPARED + 1)
        name = np.asarray(labels[part])
        follows = name[1:] > name[:-1]
        if is_dst is not None:
            side = is_dst[part]
            follows = np.where(side[1:] == side[:-1], follows, side[1:])
        if not follows.all():
            return first + 1 + int(np.argmin(follows))
    return len(labels)


@dataclass(frozen=True, eq=False)
class TextIds:
    """A column of text ids: row i holds ``labels[codes[i]]``. The labels are distinct."""

    codes: Ints
    labels: pa.Array

    @classmethod
    def of(cls, values: pa.ChunkedArray) -> TextIds:
        """Encode the rows without a Python object for each."""
        if pa.types.is_dictionary(values.type):
            values = values.unify_dictionaries()
        else:
            values = values.dictionary_encode()  # all chunks share the dictionary
        codes = np.concatenate([chunk.indices.to_numpy() for chunk in values.chunks])
        return cls(codes, values.chunk(0).dictionary)


def number_nodes(
    src: Ints | TextIds, dst: Ints | TextIds, bipartite: bool | None
) -> tuple[NodeIds, Ints, Ints]:
    """Assign node numbers in the order of the labels; in a bipartite stream sources come first.

    Integers become text where the other column is text. ``bipartite=None`` means bipartite if no node is
    on both sides.
    """
    if isinstance(src, np.ndarray) and isinstance(dst, np.ndarray):
        return _number(src, dst, bipartite)
    src_ranks, dst_ranks, names = _rank(_as_text(src), _as_text(dst))
    ids, src_ids, dst_ids = _number(src_ranks, dst_ranks, bipartite)
    return NodeIds(frozen(names[ids.labels]), ids.is_dst), src_ids, dst_ids


def _checked(label: int | str) -> int | str:
    if isinstance(label, bool) or not isinstance(label, str | int | np.integer):
        raise DataError(f"{label!r} is not a node id; ids are whole numbers or text.")
    return label if isinstance(label, str) else int(label)


def distinct_ids(column: Ints | TextIds) -> tuple[list[int | str], Ints]:
    """Return the distinct labels of a column, and each row's position among them."""
    if isinstance(column, TextIds):
        return column.labels.to_pylist(), column.codes
    if not len(column):
        return [], column
    labels, codes = _factorize(column)
    return labels.tolist(), codes


def _as_text(ids: Ints | TextIds) -> TextIds:
    if isinstance(ids, TextIds):
        return ids
    return TextIds.of(pa.chunked_array([pa.array(ids).cast(pa.string())]))


def _rank(src: TextIds, dst: TextIds) -> tuple[Ints, Ints, Array]:
    """Replace text ids by their ranks among the sorted labels of both columns, which come third."""
    labels = [ids.labels.cast(pa.large_string()) for ids in (src, dst)]
    both = pa.concat_arrays(labels).dictionary_encode()
    order = pc.sort_indices(both.dictionary)  # by bytes, which in UTF-8 is by code point
    rank = np.empty(len(order), dtype=np.int64)
    rank[order.to_numpy()] = np.arange(len(order))
    ranks = rank[both.indices.to_numpy()]
    names = np.asarray(both.dictionary.take(order).to_pylist(), dtype=np.str_)
    return ranks[: len(src.labels)][src.codes], ranks[len(src.labels) :][dst.codes], names


def _number(src: Ints, dst: Ints, bipartite: bool | None) -> tuple[NodeIds, Ints, Ints]:
    src_labels, src_codes = _factorize(src)
    dst_labels, dst_codes = _factorize(dst)
    if bipartite is None:
        bipartite = len(np.intersect1d(src_labels, dst_labels, assume_unique=True)) == 0
    if bipartite:
        labels = np.concatenate([src_labels, dst_labels])
        is_dst = np.arange(len(labels)) >= len(src_labels)
        return NodeIds(frozen(labels), frozen(is_dst)), src_codes, dst_codes + len(src_labels)
    labels = np.union1d(src_labels, dst_labels)
    src_ids = np.searchsorted(labels, src_labels)[src_codes]
    dst_ids = np.searchsorted(labels, dst_labels)[dst_codes]
    return NodeIds(frozen(labels)), src_ids, dst_ids


def _factorize(column: Ints) -> tuple[Ints, Ints]:
    """Return the distinct values in ascending order, and each row's position among them."""
    low, high = int(column.min()), int(column.max())
    if high - low <= 8 * len(column) + 1024:  # dense enough to mark instead of hash
        seen = np.zeros(high - low + 1, dtype=bool)
        seen[column - low] = True
        rank = np.cumsum(seen) - 1
        return np.flatnonzero(seen) + low, rank[column - low]
    coded = pc.dictionary_encode(pa.array(column))
    values = coded.dictionary.to_numpy()
    order = np.argsort(values)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return values[order], rank[coded.indices.to_numpy()]
