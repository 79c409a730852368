"""Reading events: open the source, find its columns, check them, build the stream."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from contig.data.events import EventStream, NodeIds
from contig.data.readers import parquet
from contig.data.readers.arrays import Arrays, read_arrays
from contig.data.readers.roles import find_roles, users_and_items
from contig.data.readers.sources import ColumnName, Format, Roles, Source, no_events, refusing
from contig.data.readers.tables import open_table
from contig.data.readers.text import open_text
from contig.errors import ConfigError, DataError, unknown

log = logging.getLogger("contig")

GZIP_MAGIC = b"\x1f\x8b"


def read_events(
    source: Any,
    *,
    src: ColumnName | None = None,
    dst: ColumnName | None = None,
    t: ColumnName | None = None,
    label: ColumnName | None = None,
    features: Sequence[ColumnName] | None = None,
    format: Format | None = None,
    bipartite: bool | None = None,
) -> EventStream:
    """Read events from a file, a folder of Parquet files, or a table in memory.

    ``source`` is a path, or any object that exports an Arrow stream (a pandas or polars frame, a
    DuckDB relation, a pyarrow table or reader). ``src`` ... ``features`` name columns; what is not
    named is recognised (see the package's list), and ``features=[]`` leaves all features out. Whole
    numbers name columns by position and say of a text file that it has no header. ``format`` is
    found out from the file when it is None; text files may be compressed with gzip.

    Dates become Unix seconds (without a time zone they count as UTC); integer times stay int64 and
    fractional ones float64. Columns that are neither named nor recognised are ignored with a notice;
    one column may be named for several parts. ``bipartite`` as in ``EventStream.from_arrays``, except
    that JODIE files and columns called user... and item... are always bipartite. In text files an id
    column of whole numbers holds integers, unless its first lines show zero-padded or hexadecimal ids,
    which stay text.
    """
    if format is not None and format not in get_args(Format):
        raise ConfigError(unknown("format", str(format), get_args(Format)))
    named = {"src": src, "dst": dst, "t": t, "label": label}
    positional = any(isinstance(column, int) for column in (*named.values(), *(features or ())))
    opened = _open(source, format, positional)
    roles = find_roles(opened, named, features)
    with refusing(opened.origin, "check the file or write it again."):
        table = opened.load(roles)
        if table.num_rows == 0:
            raise no_events(opened.origin, "in it")
        arrays = read_arrays(opened, roles, table)
    sides = users_and_items(opened, roles) if bipartite is None else bipartite
    return _with_notice(_stream(arrays, sides, opened.origin), opened, roles)


def _open(source: Any, format: Format | None, positional: bool) -> Source:
    if isinstance(source, str | Path):
        with refusing(source, "check the path and that it may be read."):
            return _open_path(Path(source), format, positional)
    if hasattr(source, "__arrow_c_stream__"):
        if format is not None:
            raise ConfigError(f"format={format!r} is for files; leave it out when reading a table.")
        return open_table(source)
    raise DataError(
        f"Cannot read events from a {type(source).__name__}; give a path, or a table that exports an Arrow "
        "stream (pandas, polars, DuckDB, pyarrow). For plain arrays there is EventStream.from_arrays."
    )


def _open_path(path: Path, format: Format | None, positional: bool) -> Source:
    if path.is_dir():
        if format not in (None, "parquet"):
            raise ConfigError(f"{path} is a folder, and format={format!r} is read from files; name one.")
        return parquet.open_folder(path)
    if not path.exists():
        raise DataError(f"{path}: there is no such file or folder.{_near_files(path)}")
    with path.open("rb") as file:
        magic = file.read(4)
    if format is None and (magic == parquet.MAGIC or path.suffix in parquet.SUFFIXES):
        format = "parquet"
    if format == "parquet":
        return parquet.open_parquet([path], path)
    return open_text(path, format, gzipped=magic.startswith(GZIP_MAGIC), positional=positional)


def _near_files(path: Path) -> str:
    siblings = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, siblings, n=3, cutoff=0.6)
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else " Check the path."


def _stream(arrays: Arrays, bipartite: bool | None, origin: str) -> EventStream:
    stream = EventStream.from_arrays(
        arrays.src,
        arrays.dst,
        arrays.t,
        label=arrays.label,
        edge_features=arrays.features,
        bipartite=bipartite,
        origin=origin,
    )
    if arrays.node_labels is None:
        return stream
    labels = arrays.node_labels[stream.ids.labels]
    labels.flags.writeable = False
    return replace(stream, ids=NodeIds(labels, stream.ids.is_dst))


def _with_notice(stream: EventStream, source: Source, roles: Roles) -> EventStream:
    used = set(roles.positions)
    ignored = [name for i, name in enumerate(source.names) if i not in used and name]
    if not ignored:
        return stream
    shown = ", ".join(map(repr, ignored[:10])) + (", ..." if len(ignored) > 10 else "")
    notice = f"{source.origin}: ignored {len(ignored)} column(s): {shown}."
    log.info(notice)
    return replace(stream, notices=(*stream.notices, notice))
