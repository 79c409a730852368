"""Reading events: open the source, find its columns, check them, build the stream."""

from __future__ import annotations

import difflib
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from contig.data.events import EventStream, NodeIds
from contig.data.read_options import ReadKeywords, ReadOptions
from contig.data.readers import parquet
from contig.data.readers.arrays import Arrays, read_arrays
from contig.data.readers.roles import find_roles, users_and_items
from contig.data.readers.sources import FORMATS, Roles, Source, no_events, refusing
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
    with refusing(opened.origin, "check the file or write it again."):
        table = opened.load(roles)
        if table.num_rows == 0:
            raise no_events(opened.origin, "in it")
        arrays = read_arrays(opened, roles, table)
    sides = users_and_items(opened, roles) if reading.bipartite is None else reading.bipartite
    stream = _with_notice(_stream(arrays, sides, opened.origin), opened, roles)
    return require_features(stream) if reading.features is True else stream


def require_features(stream: EventStream) -> EventStream:
    """Return the stream itself, or raise if it has no edge features."""
    if stream.edge_features is None:
        raise DataError(
            f"features=True, but {stream.origin} has no edge features; omit the option or read a file that "
            "has them."
        )
    return stream


def _open(source: Any, reading: ReadOptions) -> Source:
    if reading.format is not None and reading.format not in FORMATS:
        raise ConfigError(unknown("format", str(reading.format), FORMATS))
    if isinstance(source, str | Path):
        with refusing(source, "check the path and that it may be read."):
            return _open_path(Path(source), reading)
    if hasattr(source, "__arrow_c_stream__"):
        if reading.format is not None:
            raise ConfigError(f"format={reading.format!r} is for files; omit it when reading a table.")
        return open_table(source)
    raise DataError(
        f"Cannot read events from a {type(source).__name__}; give a path, or a table that exports an Arrow "
        "stream (pandas, polars, DuckDB, pyarrow). For plain arrays there is EventStream.from_arrays."
    )


def _open_path(path: Path, reading: ReadOptions) -> Source:
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
