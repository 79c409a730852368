"""The event stream: who interacted with whom, when, and with which features.

Nodes are numbered ``0..num_nodes-1``; ``NodeIds`` maps these numbers to the user's own ids.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from contig import markup
from contig.data.clock import TimeSpan
from contig.data.columns import Array, frozen
from contig.data.feature_columns import FeatureColumn
from contig.data.ids import NodeIds, number_nodes
from contig.data.read_options import ReadOptions
from contig.data.validation import EventColumns, feature_matrix, validate_arrays
from contig.errors import DataError
from contig.options import check_flag
from contig.wording import counted

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("contig")

COLUMNS = ("src", "dst", "t", "label", "edge_features", "node_features")
READ_AT_ONCE = 1 << 22  # events
HASHED_ROWS = 1 << 16  # at a time; features are hashed as float64, and a copy of all would fill the memory


@dataclass(frozen=True, eq=False)
class EventStream:
    """An immutable stream of interactions in time order.

    Columns are numpy arrays of one length: ``src`` and ``dst`` (int64 internal ids),
    ``t`` (int64 or float64), and, if the data has them, ``label`` (int64) and
    ``edge_features`` (float32, ``[events, width]``). ``node_features`` (float32,
    ``[nodes, width]``) follows the order of ``ids.labels``. Slices are views.

    ``edge_columns`` and ``node_columns`` describe features that are not encoded yet, with categories and
    missing values; ``contig.fit`` encodes them by what the training part holds, and then they are empty.

    ``benchmark`` is true for a dataset of the catalog: by default its training hides nodes, as published
    figures require. ``dates`` is true if the times were given as dates. ``read_as`` has the columns that were
    named when the stream was read: a run reads later files in the same way.
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
    edge_columns: tuple[FeatureColumn, ...] = field(default=(), repr=False)
    node_columns: tuple[FeatureColumn, ...] = field(default=(), repr=False)
    benchmark: bool = False
    dates: bool = False
    read_as: ReadOptions | None = field(default=None, repr=False)

    @property
    def date_format(self) -> str | None:
        """How the times were written where they were read, if neither as numbers nor in ISO 8601."""
        return None if self.read_as is None else self.read_as.date_format

    @property
    def time_span(self) -> TimeSpan:
        """The first and the last time, and their unit."""
        return TimeSpan.of(self.t, dates=self.dates)

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
        """Build a stream from columns in memory.

        ``src`` and ``dst`` hold integers or strings, ``t`` numbers or dates. ``bipartite=True``
        keeps sources and destinations apart even if they share labels; ``None`` means bipartite
        if no node is on both sides. ``node_features`` is a mapping from the user's ids, or an
        array in the order of ``stream.ids.labels`` (sorted labels; in a bipartite stream sources
        first). Events out of order are sorted by time, stably, with a notice.
        """
        check_flag("bipartite", bipartite)
        columns = validate_arrays(src, dst, t, label, edge_features, origin)
        stream = cls.from_columns(columns, bipartite=bipartite, origin=origin)
        return stream if node_features is None else stream.with_node_features(node_features)

    @classmethod
    def from_columns(cls, columns: EventColumns, *, bipartite: bool | None, origin: str) -> EventStream:
        """Build a stream from validated columns, which it keeps without a copy (see ``from_arrays``)."""
        ids, src, dst = number_nodes(columns.src, columns.dst, bipartite)
        arrays: dict[str, Array | None] = {"src": src, "dst": dst, "t": columns.t}
        arrays |= {"label": columns.label, "edge_features": columns.features}
        notices: tuple[str, ...] = ()
        if np.any(columns.t[1:] < columns.t[:-1]):
            order = np.argsort(columns.t, kind="stable")
            arrays = {name: None if array is None else array[order] for name, array in arrays.items()}
            moved = int(np.count_nonzero(order != np.arange(len(order))))
            notices = (f"{origin}: events were not in time order; sorted by time ({moved:,} rows moved).",)
            log.warning(notices[0])
        ready: dict[str, Any] = {name: None if a is None else frozen(a) for name, a in arrays.items()}
        columns_left = columns.feature_columns
        return cls(
            ids=ids, origin=origin, notices=notices, edge_columns=columns_left, dates=columns.dates, **ready
        )

    def with_node_features(self, features: ArrayLike | Mapping[Any, Sequence[float]]) -> EventStream:
        """Return the same events with a feature vector per node (see ``from_arrays``)."""
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
        return replace(self, node_features=frozen(matrix))

    def __repr__(self) -> str:
        """Summarize in one line: origin, size and time span."""
        parts = [counted(len(self), "event"), counted(self.num_nodes, "node")]
        if self.edge_width:
            parts.append(counted(self.edge_width, "feature"))
        if len(self):
            parts.append(str(self.time_span))
        return f"EventStream({self.origin!r}: {', '.join(parts)})"

    def _repr_html_(self) -> str:
        """Show the size and the first events in a notebook."""
        first = self[:5].to_arrow()
        rows = zip(*first.to_pydict().values(), strict=True)
        return markup.table(repr(self), first.column_names, rows, self.notices)

    def __len__(self) -> int:
        return len(self.src)

    def __getitem__(self, part: slice) -> EventStream:
        """Return a view of consecutive events; ids and node features stay complete."""
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
        """The number of features per event, 0 if there are none."""
        return 0 if self.edge_features is None else self.edge_features.shape[1]

    @cached_property
    def destinations(self) -> NDArray[np.int64]:
        """The distinct destinations of these events, in ascending order."""
        return self.destinations_of(np.arange(len(self)))

    def destinations_of(self, events: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the distinct destinations of some events, by position, in ascending order."""
        seen = np.zeros(self.num_nodes, dtype=bool)
        for first in range(0, len(events), READ_AT_ONCE):
            seen[self.dst[events[first : first + READ_AT_ONCE]]] = True
        return np.flatnonzero(seen)

    def to_arrow(self, *, wide: bool = False, dates: bool = False) -> pa.Table:
        """Return the events as an Arrow table: src, dst, t, and label and features if there are any.

        Nodes have the user's ids. Features are one column of lists, or with ``wide`` the columns f0, f1, ....
        With ``dates``, times that are Unix times become timestamps.
        """
        from contig.data.exports import event_table

        return event_table(self, wide=wide, dates=dates)

    def to_pandas(self, *, wide: bool = False, dates: bool = False) -> Any:
        """Return the events as a pandas frame (see ``to_arrow``)."""
        from contig.data.exports import as_pandas

        return as_pandas(self.to_arrow(wide=wide, dates=dates))

    def to_polars(self, *, wide: bool = False, dates: bool = False) -> Any:
        """Return the events as a polars frame (see ``to_arrow``)."""
        from contig.data.exports import as_polars

        return as_polars(self.to_arrow(wide=wide, dates=dates))

    def to_temporal_data(self) -> Any:
        """Return the events as a ``TemporalData`` of PyTorch Geometric.

        Nodes are numbered as in this stream (``ids.labels`` has the user's ids), features are ``msg`` and
        labels ``y``.
        """
        from contig.data.exports import temporal_data

        return temporal_data(self)

    def equals(self, other: EventStream) -> bool:
        """Return whether both streams hold the same events: same columns by value, same structure."""
        return (
            self.num_nodes == other.num_nodes
            and self.bipartite == other.bipartite
            and _categories(self) == _categories(other)
            and all(_same(getattr(self, c), getattr(other, c)) for c in COLUMNS)
        )

    def fingerprint(self) -> str:
        """Return a checksum of src, dst, t, label and features, the same for every file format.

        Features that are still to be encoded count with the names of their columns and categories.
        """
        digest = hashlib.sha256()
        for column in (self.src, self.dst, self.t, self.label, self.edge_features):
            if column is None:
                digest.update(b"-")
            else:
                # Whole times may be floats in another format.
                as_float = column.dtype.kind == "f" or (column is self.t and _fits_float(column))
                kind = np.float64 if as_float else np.int64
                for row in range(0, len(column), HASHED_ROWS):
                    digest.update(column[row : row + HASHED_ROWS].astype(kind).tobytes())
        if self.edge_columns:
            digest.update(repr(self.edge_columns).encode())
        if self.node_features is not None:
            names = repr(self.node_columns or self.node_features.shape)
            digest.update(names.encode() + self.node_features.tobytes())
        return digest.hexdigest()


def _fits_float(integers: Array) -> bool:
    """Return whether float64 holds these integers exactly, whatever others there are in their range."""
    return not len(integers) or (int(integers.min()) > -(2**53) and int(integers.max()) < 2**53)


def _same(a: Array | None, b: Array | None) -> bool:
    return (a is None and b is None) or (a is not None and b is not None and _equal(a, b))


def _categories(stream: EventStream) -> list[tuple[str, ...]]:
    """Return what the codes in the columns of categories mean."""
    columns = (*stream.edge_columns, *stream.node_columns)
    return [column.categories for column in columns if column.categories is not None]


def _equal(a: Array, b: Array) -> bool:
    return np.array_equal(a, b, equal_nan=a.dtype.kind == "f" and b.dtype.kind == "f")


def check_stream(stream: Any) -> None:
    """Raise ``DataError`` unless this is an event stream."""
    if not isinstance(stream, EventStream):
        raise DataError(f"stream={stream!r}: expected an EventStream; contig.open_stream makes one.")
