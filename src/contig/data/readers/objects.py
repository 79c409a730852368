"""Event tables from objects that export no Arrow stream: mappings, lazy frames, graphs, temporal data.

Recognized without importing the packages they come from:

- a mapping of columns, such as a dict of arrays or the ``full_data`` of a TGB dataset;
- a polars ``LazyFrame``, of which only the columns that are used are computed;
- a networkx graph, or a graph of networkx-temporal: one event per edge, with the edge's attributes;
- a ``TemporalData`` of PyTorch Geometric.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from contig.data.columns import Column, row_place
from contig.data.readers.opened import OpenedTable, Roles, list_columns, other_columns, read_errors
from contig.errors import DataError

Edge = tuple[Any, Any, Mapping[Any, Any]]


def open_object(source: Any) -> OpenedTable | None:
    """Open an object as a table of events; return None if it is none of these kinds."""
    for recognized, opened in _KINDS:
        if recognized(source):
            return opened(source)
    return None


def _has_ancestor(source: Any, package: str, name: str) -> bool:
    """Return whether a class of that name in that package is the object's class or one above it."""
    return any(
        kind.__name__ == name and kind.__module__.partition(".")[0] == package
        for kind in type(source).__mro__
    )


# --- columns in memory -------------------------------------------------------------------------------


def _open_mapping(columns: Mapping[Any, Any]) -> OpenedTable:
    """Open a mapping from names to columns of equal lengths; a two-dimensional array holds features."""
    origin = type(columns).__name__
    arrays = {str(name): _column(values, str(name), origin) for name, values in columns.items()}
    _check_equal_lengths(arrays, origin)
    return _opened(pa.table(arrays), origin)


def _column(values: Any, name: str, origin: str) -> pa.ChunkedArray:
    array = np.asarray(values)
    if array.ndim == 2:
        flat = Column.of(np.ascontiguousarray(array).ravel(), name, origin).values.combine_chunks()
        return pa.chunked_array([pa.FixedSizeListArray.from_arrays(flat, array.shape[1])])
    return Column.of(array, name, origin).values


def _check_equal_lengths(arrays: Mapping[str, pa.ChunkedArray], origin: str) -> None:
    if len({len(array) for array in arrays.values()}) > 1:
        shown = ", ".join(f"{name} {len(array):,}" for name, array in arrays.items())
        raise DataError(f"{origin}: columns differ in length ({shown}); every event needs one value in each.")


def _opened(table: pa.Table, origin: str) -> OpenedTable:
    return OpenedTable(
        origin=origin,
        names=table.column_names,
        load=lambda roles: table.select(list(roles.positions)),
        place=row_place(origin),
        list_columns=list_columns(table.schema),
        other_columns=other_columns(table.schema),
    )


def _open_temporal_data(data: Any) -> OpenedTable:
    """Open a ``TemporalData``: its ``msg`` holds the features and its ``y`` the labels."""
    columns = {name: value.detach().cpu().numpy() for name, value in data.to_dict().items()}
    columns.pop("y_known", None)  # y says the same
    order = [name for name in ("src", "dst", "t", "msg", "y") if name in columns]
    rest = [name for name in columns if name not in order and len(columns[name]) == len(columns["src"])]
    opened = _open_mapping({name: columns[name] for name in (*order, *rest)})
    return replace(opened, origin="TemporalData", place=row_place("TemporalData"))


# --- polars ------------------------------------------------------------------------------------------


def _open_lazy(frame: Any) -> OpenedTable:
    """Open a lazy frame; only the columns of the events are collected."""
    schema = frame.collect_schema()
    names, origin = list(schema.names()), "polars LazyFrame"

    def load(roles: Roles) -> pa.Table:
        with read_errors(origin, "check the query."):
            rows = frame.select([names[i] for i in roles.positions]).collect()
            return pa.RecordBatchReader.from_stream(rows).read_all()

    lists = frozenset(i for i, kind in enumerate(schema.dtypes()) if str(kind).startswith(("List", "Array")))
    unusable = ("Struct", "Date", "Time", "Duration", "Object")
    others = frozenset(i for i, kind in enumerate(schema.dtypes()) if str(kind).startswith(unusable))
    return OpenedTable(origin, names, load, row_place(origin), lists, others)


# --- graphs ------------------------------------------------------------------------------------------


def _open_graph(graph: Any) -> OpenedTable:
    """Open a networkx graph: one event per edge, its attributes as columns."""
    return _open_edges(graph.edges(data=True), type(graph).__name__)


def _open_temporal_graph(graph: Any) -> OpenedTable:
    """Open a graph of networkx-temporal; an edge without a time gets the number of its snapshot."""
    snapshots = [list(part.edges(data=True)) for part in graph]
    timed = any("time" in data or "t" in data for data in (edge[2] for part in snapshots for edge in part))
    if not timed:
        snapshots = [[(u, v, {**data, "t": i}) for u, v, data in part] for i, part in enumerate(snapshots)]
    return _open_edges(chain.from_iterable(snapshots), type(graph).__name__)


def _open_edges(edges: Iterable[Edge], origin: str) -> OpenedTable:
    rows = list(edges)
    if not rows:
        raise DataError(f"{origin}: the graph has no edges; a stream needs at least one event.")
    columns: dict[str, list[Any]] = {"src": [u for u, _, _ in rows], "dst": [v for _, v, _ in rows]}
    names = dict.fromkeys(str(name) for _, _, data in rows for name in data)
    by_name = [{str(name): value for name, value in data.items()} for _, _, data in rows]
    columns |= {name: [data.get(name) for data in by_name] for name in names if name not in columns}
    return _opened(pa.table({n: _attribute(values, n, origin) for n, values in columns.items()}), origin)


def _attribute(values: list[Any], name: str, origin: str) -> pa.ChunkedArray:
    """Return an edge attribute as a column; vectors become lists, and mixed values text."""
    try:
        return pa.chunked_array([pa.array(values, from_pandas=True)])
    except (pa.ArrowException, ValueError, OverflowError):
        return Column.of(np.array([*values, None], dtype=object)[:-1], name, origin).values


_KINDS: tuple[tuple[Callable[[Any], bool], Callable[[Any], OpenedTable]], ...] = (
    (lambda source: isinstance(source, Mapping), _open_mapping),
    (lambda source: _has_ancestor(source, "polars", "LazyFrame"), _open_lazy),
    (lambda source: _has_ancestor(source, "networkx_temporal", "TemporalABC"), _open_temporal_graph),
    (lambda source: _has_ancestor(source, "networkx", "Graph"), _open_graph),
    (lambda source: _has_ancestor(source, "torch_geometric", "TemporalData"), _open_temporal_data),
)
