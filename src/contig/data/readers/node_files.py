"""Files with one row per node: its id and its features."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from contig.data.columns import Column, frozen
from contig.data.events import EventStream
from contig.data.feature_columns import RawFeatures, no_values, raw_features, without_values
from contig.data.ids import distinct_ids
from contig.data.read_options import ReadOptions
from contig.data.readers import parquet
from contig.data.readers.names import plain_name
from contig.data.readers.opened import OpenedTable, Roles, read_errors
from contig.data.validation import no_events, validate_ids
from contig.errors import DataError
from contig.wording import counted

log = logging.getLogger("contig")

ID_NAMES = ("node", "node_id", "id", "user", "user_id", "item", "item_id")
SIDE_NAMES = ("side",)


def with_node_file(stream: EventStream, path: Path) -> EventStream:
    """Add the features of a file with one row per node to a stream; they are encoded later.

    The id is in the column node, id or similar, else in the first one. A column ``side`` (src or dst) tells
    apart nodes with equal ids. Nodes without a row have missing features; rows without a node are ignored.
    """
    with read_errors(path, "check the path and its permissions."):
        opened = _open(path)
        id_column, side_column = _find(opened, ID_NAMES), _find(opened, SIDE_NAMES)
        id_column = 0 if id_column is None else id_column
        wanted = [i for i, name in enumerate(opened.names) if name and i not in (id_column, side_column)]
        if not wanted:
            raise DataError(f"{path}: there are no columns next to the ids {opened.names[id_column]!r}.")
        used = tuple(wanted) if side_column is None else (side_column, *wanted)
        roles = Roles(id_column, id_column, id_column, None, used, raw=True)
        table = opened.load(roles)
    if table.num_rows == 0:
        raise no_events(path)
    columns = {i: _column(opened, table, n, i) for n, i in enumerate(roles.positions)}
    rows = _nodes(stream, columns[id_column], None if side_column is None else columns[side_column])
    features = raw_features([columns[i] for i in wanted])
    matrix = np.full((stream.num_nodes, len(wanted)), np.nan, dtype=np.float32)
    matrix[rows[rows >= 0]] = features.values[rows >= 0]
    named = RawFeatures(matrix, features.columns)
    notices = stream.notices
    if names := without_values(named):
        notices = (*notices, no_values(path, names, "remove it from the file"))
        log.warning(notices[-1])
    return replace(stream, node_features=frozen(matrix), node_columns=named.columns, notices=notices)


def _open(path: Path) -> OpenedTable:
    if not path.is_file():
        raise DataError(f"{path}: no such file of node features. Check the path.")
    if parquet.is_parquet(path):
        return parquet.open_parquet(path, ReadOptions())
    from contig.data.readers.text import open_csv, open_tsv  # loads pandas where it is installed

    return (open_tsv if ".tsv" in path.suffixes else open_csv)(path, ReadOptions())


def _find(opened: OpenedTable, names: tuple[str, ...]) -> int | None:
    plain = [plain_name(name) for name in opened.names]
    return next((plain.index(name) for name in names if name in plain), None)


def _column(opened: OpenedTable, table: object, place: int, position: int) -> Column:
    return Column(opened.names[position], table.column(place), opened.origin, opened.place)  # type: ignore[attr-defined]


def _nodes(stream: EventStream, ids: Column, sides: Column | None) -> NDArray[np.int64]:
    """Return the node of each row, -1 for one that the stream does not have."""
    labels, codes = distinct_ids(validate_ids(ids))
    on_side = [
        np.array([stream.ids.number_of(label, dst=dst) for label in labels], dtype=np.int64)[codes]
        for dst in (False, True)
    ]
    if sides is not None:
        rows = np.where(_is_dst(sides), on_side[1], on_side[0])
    else:
        both = (on_side[0] >= 0) & (on_side[1] >= 0) & (on_side[0] != on_side[1])
        if both.any():
            row = int(np.argmax(both))
            raise ids.error(
                row,
                "is both a source and a destination; add a column 'side' with src or dst.",
                labels[codes[row]],
            )
        rows = np.maximum(*on_side)
    known = rows[rows >= 0]
    if len(np.unique(known)) < len(known):
        _, first = np.unique(rows, return_index=True)
        repeated = np.setdiff1d(np.flatnonzero(rows >= 0), first)
        raise ids.error(int(repeated[0]), "has a second row; keep one per node.", labels[codes[repeated[0]]])
    if not len(known):
        raise DataError(
            f"{ids.origin}: none of the ids in column {ids.name!r} is a node of {stream.origin}, whose ids "
            f"look like {stream.ids.labels[0].item()!r}; check the column."
        )
    _note(stream, ids, len(known), len(rows))
    return rows


def _is_dst(sides: Column) -> NDArray[np.bool_]:
    found = np.asarray(sides.plain().to_pylist(), dtype=object)
    wrong = ~np.isin(found, ["src", "dst"])
    if wrong.any():
        row = int(np.argmax(wrong))
        raise sides.error(row, "is neither src nor dst.", found[row])
    flags: NDArray[np.bool_] = found == "dst"
    return flags


def _note(stream: EventStream, ids: Column, known: int, rows: int) -> None:
    if known < stream.num_nodes:
        log.warning(
            f"{ids.origin}: no features for {stream.num_nodes - known:,} of {stream.num_nodes:,} nodes; "
            "theirs count as missing."
        )
    if known < rows:
        log.info(f"{ids.origin}: ignored {counted(rows - known, 'row')} of nodes that have no events.")
