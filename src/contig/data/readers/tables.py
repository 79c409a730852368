"""Tables in memory that export an Arrow stream."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

from contig.data.columns import row_place
from contig.data.readers.opened import OpenedTable, list_columns, other_columns, read_errors
from contig.errors import DataError


def open_table(table: Any, origin: str | None = None) -> OpenedTable:
    """Load a table; ``origin`` names it in messages, by default its type (``pandas DataFrame``)."""
    kind = type(table)
    origin = origin or f"{kind.__module__.partition('.')[0].lstrip('_')} {kind.__name__}"
    if origin.startswith("pandas "):  # which cannot export columns of one name
        (name, count), *_ = Counter(table.columns).most_common(1) or [("", 0)]
        if count > 1:
            raise DataError(f"{origin}: {count} columns are called {name!r}; rename all but one.")
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
