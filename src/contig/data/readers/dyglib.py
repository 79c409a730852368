"""DyGLib's files: events in ``ml_NAME.csv``, features in ``ml_NAME.npy`` and ``ml_NAME_node.npy``.

A row of the features belongs to the event with that ``idx``, and a row of the node features to the node with
that number; row 0 of both is padding. DyGLib writes zeros where a dataset has no features; such a matrix is
left out.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from contig.data.columns import Array, frozen
from contig.data.events import EventStream
from contig.data.read_options import ReadOptions
from contig.data.readers.opened import read_errors
from contig.data.readers.roles import find_roles
from contig.data.readers.text import open_csv
from contig.data.validation import feature_matrix
from contig.errors import DataError

DYGLIB_COLUMNS = ("", "u", "i", "ts", "label", "idx")
_ADVICE = "copy it again, or remove it to read the events alone."


def features_file(path: Path) -> Path:
    """Return where the features of the events in ``path`` are."""
    return path.with_suffix(".npy")


def read_dyglib(path: Path, reading: ReadOptions) -> EventStream:
    """Read DyGLib's events, with the features from the files next to them."""
    table = open_csv(path, reading)
    if "idx" not in table.names:
        raise DataError(f"{path}: a file of DyGLib has a column 'idx'; read other files with format='csv'.")
    roles = find_roles(table, replace(reading, features=("idx",), preprocess=False))
    with read_errors(path, "check the file or write it again."):
        rows = table.load(roles)
        columns = table.columns(replace(roles, features=()), rows, reading.date_format)
    index = _whole(path, rows.column(rows.num_columns - 1).to_numpy())
    features = None if reading.features is False else _edge_features(features_file(path), index)
    stream = EventStream.from_columns(
        replace(columns, features=features), bipartite=reading.bipartite, origin=str(path)
    )
    return _with_node_features(stream, path.with_name(f"{path.stem}_node.npy"), reading)


def _whole(path: Path, written: Array) -> Array:
    rows: Array = np.nan_to_num(written, nan=-1).astype(np.int64)
    if (rows != written).any():
        raise DataError(f"{path}: the column 'idx' must hold whole numbers, the rows of the features.")
    return rows


def _edge_features(path: Path, index: Array) -> Array | None:
    """Return the rows of the features; None if there is no such file, or all are zero."""
    rows = _matrix(path)
    if rows is None:
        return None
    if int(index.min()) < 0 or int(index.max()) >= len(rows):
        raise DataError(
            f"{path}: {len(rows):,} rows, but 'idx' runs to {int(index.max()):,}; the file belongs to other "
            f"events. {_ADVICE.capitalize()}"
        )
    chosen = rows[index]
    return feature_matrix(chosen, str(path)) if chosen.any() else None


def _with_node_features(stream: EventStream, path: Path, reading: ReadOptions) -> EventStream:
    rows = None if reading.features is False else _matrix(path)
    if rows is None or not rows.any():
        return stream
    nodes = stream.ids.labels
    if nodes.dtype.kind != "i" or int(nodes.min()) < 0 or int(nodes.max()) >= len(rows):
        raise DataError(f"{path}: {len(rows):,} rows for nodes up to {nodes.max()}. {_ADVICE.capitalize()}")
    return replace(stream, node_features=frozen(feature_matrix(rows[nodes], str(path))))


def _matrix(path: Path) -> Array | None:
    if not path.is_file():
        return None
    with read_errors(path, _ADVICE):
        rows: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    if rows.ndim != 2 or rows.dtype.kind not in "iuf":
        raise DataError(
            f"{path}: {rows.dtype} values of shape {rows.shape} are not rows of numbers. {_ADVICE}"
        )
    return rows
