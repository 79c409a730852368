"""Parquet files, one or a folder of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from contig.data.columns import in_words, is_list, is_text
from contig.data.read_options import ReadOptions
from contig.data.readers.limits import size_limit, too_large
from contig.data.readers.names import listed
from contig.data.readers.opened import OpenedTable, Roles, list_columns, other_columns, read_errors
from contig.errors import DataError

SUFFIXES = (".parquet", ".pq", ".parq")
MAGIC = b"PAR1"
_ADVICE = "it is damaged or not a Parquet file: write or download it again."


def is_parquet(path: Path) -> bool:
    with path.open("rb") as file:
        return path.suffix in SUFFIXES or file.read(len(MAGIC)) == MAGIC


def open_parquet(path: Path, reading: ReadOptions) -> OpenedTable:
    """Open a Parquet file, or a folder of files that hold one stream, in the order of their names."""
    return open_files(parquet_files(path), path)


def parquet_files(path: Path) -> list[Path]:
    """Return a file itself, or the Parquet files of a folder in the order of their names."""
    if not path.is_dir():
        return [path]
    files = sorted(p for p in path.iterdir() if p.suffix in SUFFIXES and not p.name.startswith("."))
    if not files and (path / "config.json").is_file():
        raise DataError(
            f"{path} seems to be the folder of a run, not of events. To train it for longer: contig resume "
            f"{path}; on new events too: contig refit {path} --on FILE."
        )
    if not files:
        raise DataError(
            f"{path}: the folder has no .parquet file; pass a file, or a folder of Parquet files."
        )
    return files


def open_files(files: Iterable[Path], origin: Path) -> OpenedTable:
    """Open files that hold one stream; the first decides which columns there are."""
    paths, counts, schemas = [], [], []
    for path in files:
        paths.append(path)
        with read_errors(path, _ADVICE), pq.ParquetFile(path) as file:
            counts.append(file.metadata.num_rows)
            schemas.append(file.schema_arrow)
    ends, schema = np.cumsum(counts), schemas[0]
    duplicates = [name for name in schema.names if schema.names.count(name) > 1]
    if duplicates:  # Parquet columns are selected by name
        raise DataError(f"{paths[0]}: two columns are called {duplicates[0]!r}; rename one of them.")

    def load(roles: Roles) -> pa.Table:
        names = [schema.names[i] for i in roles.positions]
        parts = [_read(path, own, names) for path, own in zip(paths, schemas, strict=True)]
        with read_errors(origin, "give each column the same type in every file."):
            return pa.concat_tables(parts, promote_options="permissive")

    def place(row: int) -> str:
        part = int(np.searchsorted(ends, row, side="right"))
        return f"{paths[part]}, row {row - int(ends[part]) + counts[part]} (counted from 0)"

    return OpenedTable(str(origin), schema.names, load, place, list_columns(schema), other_columns(schema))


def common_types(paths: Iterable[Path], names: Sequence[str]) -> dict[str, pa.DataType]:
    """Return the types of these columns in the first file; raise unless they hold the values of every file.

    A reader that takes the types of the first file would round the fractions of the others, for instance.
    """
    first: dict[str, pa.DataType] = {}
    example = None  # the first file
    for path in paths:
        example = example or path
        with read_errors(path, _ADVICE), pq.ParquetFile(path) as file:
            schema = file.schema_arrow
        _check_columns(path, schema, names)
        for name in names:
            own = _plain(schema.field(schema.names.index(name)).type)
            known = first.setdefault(name, own)
            if own != known and not _holds(known, own):
                here, there = in_words(own), in_words(known)
                if here == there:
                    here, there = f"{here} ({own})", f"{there} ({known})"
                raise DataError(
                    f"{path}: column {name!r} holds {here}, but {there} in {example}. Give each column the "
                    "same type in every file."
                )
    return first


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return a type without the ways in which the same values may be stored."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if is_text(kind):
        return pa.string() if "string" in str(kind) else pa.binary()
    if is_list(kind):
        return pa.list_(_plain(kind.value_type))
    return kind


def _holds(known: pa.DataType, other: pa.DataType) -> bool:
    """Return whether a type has the values of another one: of shorter integers, coarser timestamps."""
    if pa.types.is_floating(known):
        return bool(pa.types.is_float64(known) and pa.types.is_integer(other))
    same_kind = [
        all(is_kind(kind) for kind in (known, other))
        for is_kind in (pa.types.is_integer, pa.types.is_timestamp)
    ]
    if not any(same_kind):
        return False
    schemas = [pa.schema([("value", kind)]) for kind in (known, other)]
    try:
        return bool(pa.unify_schemas(schemas, promote_options="permissive").field(0).type == known)
    except pa.ArrowException:
        return False


def _check_columns(path: Path, schema: pa.Schema, names: Sequence[str]) -> None:
    missing = [name for name in names if name not in schema.names]
    if missing:
        raise DataError(
            f"{path}: there is no column {missing[0]!r} as in the folder's first file; "
            f"there are {listed(schema.names)}. Give all files the same columns."
        )


def _read(path: Path, schema: pa.Schema, names: Sequence[str]) -> pa.Table:
    """Read these columns of one file, in this order; the first two are the ids."""
    _check_columns(path, schema, names)
    coded = [name for name in names[:2] if is_text(schema.types[schema.names.index(name)])]
    options = {"read_dictionary": coded, "page_checksum_verification": True}
    with read_errors(path, _ADVICE), pq.ParquetFile(path, **options) as file:
        _check_size(path, file.metadata, names)
        # pyarrow reads a dot as a path into a struct, so such names cannot be selected one by one
        table = file.read(columns=None if any("." in name for name in names) else list(names))
        table = table.select([table.column_names.index(name) for name in names])
        table.validate()
        return table


def _check_size(path: Path, metadata: pq.FileMetaData, names: Sequence[str]) -> None:
    """Reject a file whose columns would take far more memory than the file itself."""
    groups = (metadata.row_group(i) for i in range(metadata.num_row_groups))
    stored = sum(group.total_byte_size for group in groups)
    limit = size_limit(path.stat().st_size)
    if max(stored, 8 * metadata.num_rows * len(names)) > limit:
        raise too_large(path, limit)
