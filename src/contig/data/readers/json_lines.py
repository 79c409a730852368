"""JSON lines: one object per line, plain or gzipped."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.json as arrow_json

from contig.data.columns import shortened
from contig.data.read_options import ReadOptions
from contig.data.readers.opened import READ_ERRORS, OpenedTable, list_columns, other_columns, read_errors
from contig.data.readers.text_file import decompressed, read_head
from contig.errors import DataError

BLOCK_BYTES = 1 << 24  # an object must fit into one block


def open_jsonl(path: Path, reading: ReadOptions) -> OpenedTable:
    """Open a file with one JSON object per line; its keys are the columns."""
    read_head(path)  # rejects binary and empty files
    content = pa.BufferReader(decompressed(path))
    try:
        table = _read(content)
    except READ_ERRORS as error:
        raise _diagnosis(path, content, error) from error
    return OpenedTable(
        origin=str(path),
        names=table.column_names,
        load=lambda roles: table.select(list(roles.positions)),
        place=lambda row: _place(path, content, row),
        list_columns=list_columns(table.schema),
        other_columns=other_columns(table.schema),
    )


def _read(content: pa.BufferReader) -> pa.Table:
    """Read the objects; text stays text even where it looks like a date, because it may be an id."""
    table = _parse(content)
    dates = [field.name for field in table.schema if pa.types.is_timestamp(field.type)]
    return _parse(content, pa.schema({name: pa.string() for name in dates})) if dates else table


def _parse(content: pa.BufferReader, schema: pa.Schema | None = None) -> pa.Table:
    content.seek(0)
    return arrow_json.read_json(
        content,
        arrow_json.ReadOptions(block_size=BLOCK_BYTES),
        arrow_json.ParseOptions(explicit_schema=schema),
    )


def _diagnosis(path: Path, content: pa.BufferReader, error: Exception) -> DataError:
    """Say why the fast reader failed: the first line that is not an object, or what Arrow says."""
    for number, line in _lines(content):
        try:
            found = json.loads(line)
        except ValueError as problem:
            return DataError(
                f"{path}, line {number}: not JSON ({problem}): {shortened(repr(line.decode()))}."
            )
        if not isinstance(found, dict):
            return DataError(
                f"{path}, line {number}: {shortened(repr(line.decode()))} is not a JSON object; expected one "
                'per line, such as {"src": "ann", "dst": "tea", "t": 3}.'
            )
    return DataError(f"{path}: cannot be read ({str(error)[:300]}); give every key one type in all lines.")


def _lines(content: pa.BufferReader) -> list[tuple[int, bytes]]:
    """Return the lines with content and their numbers, counted from 1."""
    content.seek(0)
    numbered = enumerate(content.read().splitlines(), start=1)
    return [(number, line) for number, line in numbered if line.strip()]


def _place(path: Path, content: pa.BufferReader, row: int) -> str:
    with read_errors(path, "check the file."):
        found = next(islice(_lines(content), row, None), None)
    return f"{path}, event {row + 1}" if found is None else f"{path}, line {found[0]}"
