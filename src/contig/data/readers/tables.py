"""Tables in memory that export an Arrow stream, and the kinds of columns Arrow has."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from contig.data.readers.sources import Source, refusing


def open_table(table: Any) -> Source:
    kind = type(table)
    origin = f"{kind.__module__.partition('.')[0].lstrip('_')} {kind.__name__}"
    with refusing(origin, "give every column one type."):
        rows = pa.RecordBatchReader.from_stream(table).read_all()
    return Source(
        origin=origin,
        names=rows.column_names,
        load=lambda roles: rows.select(list(roles.positions)),
        place=lambda row: f"{origin}, row {row} (counted from 0)",
        list_columns=list_columns(rows.schema),
    )


def list_columns(schema: pa.Schema) -> frozenset[int]:
    return frozenset(i for i, kind in enumerate(schema.types) if is_list(kind))


def is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def is_text(kind: pa.DataType) -> bool:
    return str(kind) in ("string", "large_string", "string_view", "binary", "large_binary", "binary_view")
