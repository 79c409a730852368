"""Tables in memory that export an Arrow stream."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from contig.data.columns import row_place
from contig.data.readers.opened import OpenedTable, list_columns, other_columns, read_errors
from contig.errors import DataError


def open_table(table: Any, origin: str | None = None) -> OpenedTable:
    """Load a table; ``origin`` names it in messages, by default its type (``pandas DataFrame``)."""
    kind = type(table)
    origin = origin or f"{kind.__module__.partition('.')[0].lstrip('_')} {kind.__name__}"
    names = [name for name in getattr(table, "columns", ()) if isinstance(name, str)]  # of a frame
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise DataError(f"{origin}: {names.count(twice)} columns are called {twice!r}; rename all but one.")
    with read_errors(origin, "give every column one type."):
        rows = pa.RecordBatchReader.from_stream(table).read_all()
    return OpenedTable(
        origin=origin,
        names=rows.column_names,
        load=lambda roles: rows.select(list(roles.positions)),
        place=row_place(origin),
        list_columns=list_columns(rows.schema),
        other_columns=other_columns(rows.schema),
    )
