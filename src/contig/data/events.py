"""The event stream: who met whom, when, and with which features.

Everything downstream speaks of *internal* node ids ``0..num_nodes-1``; ``NodeIds`` is
the map between them and whatever the user calls the nodes.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from contig.data.clock import TimeSpan
from contig.data.validation import Array as Array
from contig.data.validation import (
    check_lengths,
    feature_matrix,
    frozen,
    id_column,
    label_column,
    owned,
    time_column,
)
from contig.errors import DataError
from contig.files import replacing

log = logging.getLogger("contig")

Side = Literal["src", "dst"]
COLUMNS = ("src", "dst", "t", "label", "edge_features", "node_features")
HASH_AT_ONCE = 1 << 16  # rows; features are hashed as float64, which all at once would fill the memory


@dataclass(frozen=True, eq=False)
class NodeIds:
    """The map between the user's node ids and the internal ones.

    ``labels[i]`` is the user's id of internal node ``i`` (integers or strings). In a
    bipartite stream ``is_dst[i]`` tells on which side node ``i`` lives, and the same
    label may occur once on each side; otherwise ``is_dst`` is None.
    """

    labels: Array
    is_dst: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def bipartite(self) -> bool:
        return self.is_dst is not None

    @cached_property
    def _index(self) -> dict[tuple[bool, int | str], int]:
        dst_side = self.is_dst if self.is_dst is not None else np.zeros(len(self), dtype=bool)
        pairs = zip(dst_side.tolist(), self.labels.tolist(), strict=True)
        return {pair: i for i, pair in enumerate(pairs)}

    def find(self, label: int | str, side: Side | None = None) -> int:
        """The internal id of the user's node ``label``.

        ``side`` is needed only where a bipartite stream has the label on both sides.
        """
        found = {
            s: i
            for s in ("src", "dst")
            if side in (None, s) and (i := self._lookup(label, dst=s == "dst")) is not None
        }
        if len(set(found.values())) > 1:
            raise DataError(
                f"Node {label!r} is both a source and a destination of this bipartite stream; "
                "say which one is meant with side='src' or side='dst'."
            )
        if not found:
            example = ", ".join(map(repr, self.labels[:3].tolist()))
            where = f" on the {side} side" if side and self.bipartite else ""
            raise DataError(f"Node {label!r} is not in this stream{where}; its ids look like {example}.")
        return next(iter(found.values()))

    def _lookup(self, label: int | str, dst: bool) -> int | None:
        key = dst and self.bipartite
        if self.labels.dtype.kind == "i" and isinstance(label, str):
            try:  # ids typed on a command line arrive as text
                label = int(label)
            except ValueError:
                return None
        return self._index.get((key, label if isinstance(label, str) else int(label)))


@dataclass(frozen=True, eq=False)
class EventStream:
    """An immutable stream of interactions in time order.

    Columns are numpy arrays of one length: ``src`` and ``dst`` (int64 internal ids),
    ``t`` (int64 or float64), and, where the data has them, ``label`` (int64) and
    ``edge_features`` (float32, ``[events, width]``). ``node_features`` (float32,
    ``[nodes, width]``) follows the order of ``ids.labels``. Slices are views.
    """

    src: NDArray[np.int64]
    dst: NDArray[np.int64]
    t: Array
    ids: NodeIds
    label: NDArray[np.int64] | None = None
    edge_features: NDArray[np.float32] | None = None
    node_features: NDArray[np.float32] | None = None
    origin: str = "arrays"
    notices: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def from_arrays(
        cls,
        src: ArrayLike,
        dst: ArrayLike,
        t: ArrayLike,
        *,
        label: ArrayLike | None = None,
        edge_features: ArrayLike | None = None,
        node_features: ArrayLike | Mapping[Any, Sequence[float]] | None = None,
        bipartite: bool | None = None,
        origin: str = "arrays",
    ) -> EventStream:
        """Build a stream from plain columns.

        ``src`` and ``dst`` hold integers or strings. ``bipartite=True`` keeps sources and
        destinations apart even where they share labels; ``None`` detects a bipartite stream
        by its having no node on both sides. ``node_features`` is a mapping from the user's
        ids, or an array in the order of ``stream.ids.labels`` (sorted labels; in a bipartite
        stream sources first). Events out of order are sorted by time, stably, with a notice.
        """
        s, d = id_column(src, "src", origin), id_column(dst, "dst", origin)
        if (s.dtype.kind == "i") != (d.dtype.kind == "i"):
            s, d = s.astype(np.str_), d.astype(np.str_)
        times = time_column(t, origin)
        labels = None if label is None else label_column(label, origin)
        features = None if edge_features is None else feature_matrix(edge_features, origin)
        columns = {"src": s, "dst": d, "t": times, "label": labels, "edge_features": features}
        check_lengths(columns, origin)

        times = owned(times)
        features = None if features is None else owned(features)
        notices: tuple[str, ...] = ()
        if np.any(times[1:] < times[:-1]):
            order = np.argsort(times, kind="stable")
            s, d, times = s[order], d[order], times[order]
            labels = None if labels is None else labels[order]
            features = None if features is None else features[order]
            late = int(np.count_nonzero(order != np.arange(len(order))))
            notices = (f"{origin}: events were not in time order; sorted by time ({late:,} rows moved).",)
            log.warning(notices[0])

        ids, src_ids, dst_ids = _number_nodes(s, d, bipartite)
        stream = cls(
            src=frozen(src_ids),
            dst=frozen(dst_ids),
            t=frozen(times),
            ids=ids,
            label=None if labels is None else frozen(labels),
            edge_features=None if features is None else frozen(features),
            origin=origin,
            notices=notices,
        )
        return stream if node_features is None else stream.with_node_features(node_features)

    def with_node_features(self, features: ArrayLike | Mapping[Any, Sequence[float]]) -> EventStream:
        """The same events with a feature vector per node (see ``from_arrays``)."""
        if isinstance(features, Mapping):
            missing = [x for x in self.ids.labels.tolist() if x not in features]
            if missing:
                raise DataError(
                    f"node_features has no entry for node {missing[0]!r} ({len(missing):,} nodes are "
                    "missing); give every node of the stream a vector."
                )
            features = [features[x] for x in self.ids.labels.tolist()]
        matrix = feature_matrix(features, self.origin, "node_features")
        if len(matrix) != self.num_nodes:
            raise DataError(
                f"node_features has {len(matrix):,} rows, but the stream has {self.num_nodes:,} nodes; "
                "give one row per node in the order of stream.ids.labels."
            )
        return replace(self, node_features=frozen(owned(matrix)))

    def __repr__(self) -> str:
        """One line: where it comes from, how much there is, from when to when."""
        parts = [f"{len(self):,} events", f"{self.num_nodes:,} nodes"]
        if self.edge_width:
            parts.append(f"{self.edge_width:,} features")
        if len(self):
            parts.append(str(TimeSpan.of(self.t)))
        return f"EventStream({self.origin!r}: {', '.join(parts)})"

    def __len__(self) -> int:
        return len(self.src)

    def __getitem__(self, part: slice) -> EventStream:
        """A view of some consecutive events; ids and node features stay whole."""
        if not isinstance(part, slice) or part.step not in (None, 1):
            raise DataError(f"stream[{part!r}] is not a slice of consecutive events; use stream[start:stop].")
        cut: dict[str, Any] = {
            name: None if (column := getattr(self, name)) is None else column[part]
            for name in ("src", "dst", "t", "label", "edge_features")
        }
        return replace(self, **cut)

    @property
    def num_nodes(self) -> int:
        return len(self.ids)

    @property
    def bipartite(self) -> bool:
        return self.ids.bipartite

    @property
    def edge_width(self) -> int:
        """How many features an event carries (0 when it has none)."""
        return 0 if self.edge_features is None else self.edge_features.shape[1]

    @cached_property
    def destinations(self) -> NDArray[np.int64]:
        """The distinct destinations among these events, ascending."""
        seen = np.zeros(self.num_nodes, dtype=bool)
        seen[self.dst] = True
        return np.flatnonzero(seen)

    def equals(self, other: EventStream) -> bool:
        """Whether both streams hold the same events: same columns by value, same structure."""
        return (
            self.num_nodes == other.num_nodes
            and self.bipartite == other.bipartite
            and all(_same(getattr(self, c), getattr(other, c)) for c in COLUMNS)
        )

    def fingerprint(self) -> str:
        """A checksum of what happened (src, dst, t, label, features), the same for every file form."""
        digest = hashlib.sha256()
        for column in (self.src, self.dst, self.t, self.label, self.edge_features):
            if column is None:
                digest.update(b"-")
            else:
                kind = np.float64 if column.dtype.kind == "f" or column is self.t else np.int64
                for row in range(0, len(column), HASH_AT_ONCE):
                    digest.update(column[row : row + HASH_AT_ONCE].astype(kind).tobytes())
        return digest.hexdigest()


def _same(a: Array | None, b: Array | None) -> bool:
    return (a is None and b is None) or (a is not None and b is not None and np.array_equal(a, b))


def _number_nodes(
    src: Array, dst: Array, bipartite: bool | None
) -> tuple[NodeIds, NDArray[np.int64], NDArray[np.int64]]:
    """Number the nodes by their sorted labels; in a bipartite stream sources come first."""
    src_labels, src_codes = _factorize(src)
    dst_labels, dst_codes = _factorize(dst)
    if bipartite is None:
        bipartite = len(np.intersect1d(src_labels, dst_labels, assume_unique=True)) == 0
    if bipartite:
        width = max(src_labels.dtype, dst_labels.dtype)
        labels = np.concatenate([src_labels.astype(width), dst_labels.astype(width)])
        is_dst = np.arange(len(labels)) >= len(src_labels)
        return NodeIds(frozen(labels), frozen(is_dst)), src_codes, dst_codes + len(src_labels)
    labels = np.union1d(src_labels, dst_labels)
    src_ids = np.searchsorted(labels, src_labels)[src_codes]
    dst_ids = np.searchsorted(labels, dst_labels)[dst_codes]
    return NodeIds(frozen(labels)), src_ids, dst_ids


def _factorize(column: Array) -> tuple[Array, NDArray[np.int64]]:
    """Distinct values ascending, and each row's position among them."""
    if column.dtype.kind == "i":
        low, high = int(column.min()), int(column.max())
        if high - low <= 4 * len(column) + 1_000_000:  # dense enough to mark instead of hash
            seen = np.zeros(high - low + 1, dtype=bool)
            seen[column - low] = True
            rank = np.cumsum(seen) - 1
            return np.flatnonzero(seen) + low, rank[column - low]
    coded = pc.dictionary_encode(pa.array(column))
    values = np.asarray(coded.dictionary.to_pylist(), dtype=column.dtype)
    order = np.argsort(values)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return values[order], rank[coded.indices.to_numpy()]


def save_stream(stream: EventStream, folder: Path) -> None:
    """Keep a stream as ``.npy`` files that ``load_stream`` maps into memory."""
    columns = {name: getattr(stream, name) for name in COLUMNS}
    for name, array in {**columns, "ids": stream.ids.labels, "is_dst": stream.ids.is_dst}.items():
        path = folder / f"{name}.npy"
        if array is None:
            path.unlink(missing_ok=True)  # of another stream kept here before
            continue
        with replacing(path) as part:
            np.save(part, array)
    with replacing(folder / "origin.txt") as part:
        part.write_text(stream.origin, "utf-8")


def load_stream(folder: Path) -> EventStream:
    """Open a kept stream; its columns are read from disk as they are asked for."""

    def part(name: str) -> Array:
        column: Array = np.load(folder / f"{name}.npy", mmap_mode="r")
        return column

    def optional(name: str) -> Array | None:
        return part(name) if (folder / f"{name}.npy").exists() else None

    try:
        return EventStream(
            src=part("src"),
            dst=part("dst"),
            t=part("t"),
            ids=NodeIds(part("ids"), optional("is_dst")),
            label=optional("label"),
            edge_features=optional("edge_features"),
            node_features=optional("node_features"),
            origin=(folder / "origin.txt").read_text("utf-8"),
        )
    except (OSError, EOFError, ValueError) as error:
        raise DataError(f"{folder} does not hold a whole kept stream ({error}); keep it again.") from error
