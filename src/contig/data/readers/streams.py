"""Reading events: open the source, find its columns, check them, build the stream."""

from __future__ import annotations

import difflib
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from contig.data.events import EventStream
from contig.data.read_options import ReadKeywords, ReadOptions
from contig.data.readers import parquet
from contig.data.readers.opened import FORMATS, OpenedTable, Roles, read_errors
from contig.data.readers.roles import find_roles, users_and_items
from contig.data.readers.tables import open_table
from contig.data.readers.text import open_text
from contig.errors import ConfigError, DataError, unknown

log = logging.getLogger("contig")

GZIP_MAGIC = b"\x1f\x8b"


def read_events(
    source: Any, reading: ReadOptions | None = None, **options: Unpack[ReadKeywords]
) -> EventStream:
    """Read events from a file, a directory of Parquet files, or a table in memory.

    ``source`` is a path, or any object that exports an Arrow stream (a pandas or polars frame, a
    DuckDB relation, a pyarrow table or reader). ``options`` are the fields of ``ReadOptions``
    (``src="who", t="when"``) and override those of ``reading``. Columns that are not named are
    recognised by their names (see the package's list). Text files may be compressed with gzip.

    Dates become Unix seconds (without a time zone they count as UTC); integer times stay int64 and
    fractional ones float64. Columns that are neither named nor recognised are ignored with a notice;
    one column may have several roles. JODIE files and columns called user... and item... are always
    bipartite. In text files an id column of whole numbers holds integers, unless its first lines show
    zero-padded or hexadecimal ids, which stay text.
    """
    reading = (reading or ReadOptions()).updated(**options)
    opened = _open(source, reading)
    roles = find_roles(opened, reading)
    with read_errors(opened.origin, "check the file or write it again."):
        columns = opened.columns(roles, opened.load(roles))
    bipartite = users_and_items(opened, roles) if reading.bipartite is None else reading.bipartite
    stream = EventStream.from_columns(columns, bipartite=bipartite, origin=opened.origin)
    stream = _with_notice(stream, opened, roles)
    return require_features(stream) if reading.features is True else stream


def require_features(stream: EventStream) -> EventStream:
    """Return the stream itself, or raise if it has no edge features."""
    if stream.edge_features is None:
        raise DataError(
            f"features=True, but {stream.origin} has no edge features; omit the option or read a file that "
            "has them."
        )
    return stream


def _open(source: Any, reading: ReadOptions) -> OpenedTable:
    if reading.format is not None and reading.format not in FORMATS:
        raise ConfigError(unknown("format", str(reading.format), FORMATS))
    if isinstance(source, str | Path):
        with read_errors(source, "check the path and that it may be read."):
            return _open_path(Path(source), reading)
    if hasattr(source, "__arrow_c_stream__"):
        if reading.format is not None:
            raise ConfigError(f"format={reading.format!r} is for files; omit it when reading a table.")
        return open_table(source)
    raise DataError(
        f"Cannot read events from a {type(source).__name__}; give a path, or a table that exports an Arrow "
        "stream (pandas, polars, DuckDB, pyarrow). For plain arrays there is EventStream.from_arrays."
    )


def _open_path(path: Path, reading: ReadOptions) -> OpenedTable:
    format = reading.format
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
    return open_text(path, format, gzipped=magic.startswith(GZIP_MAGIC), positional=reading.positional)


def _near_files(path: Path) -> str:
    siblings = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, siblings, n=3, cutoff=0.6)
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else " Check the path."


def _with_notice(stream: EventStream, opened: OpenedTable, roles: Roles) -> EventStream:
    """Note the columns that were not used."""
    used = set(roles.positions)
    ignored = [name for i, name in enumerate(opened.names) if i not in used and name]
    if not ignored:
        return stream
    shown = ", ".join(map(repr, ignored[:10])) + (", ..." if len(ignored) > 10 else "")
    notice = f"{opened.origin}: ignored {len(ignored)} column(s): {shown}."
    log.info(notice)
    return replace(stream, notices=(*stream.notices, notice))
