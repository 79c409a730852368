"""Event streams from files and tables: open, find the columns, validate them, build the stream."""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple, Unpack

import pyarrow as pa
import pyarrow.compute as pc

from contig.data.columns import ARROW_ERRORS, Column, row_place
from contig.data.encoding import to_encode
from contig.data.events import EventStream
from contig.data.feature_columns import Kind, RawFeatures, no_values, without_values
from contig.data.read_options import ReadKeywords, ReadOptions, reading_options
from contig.data.readers.detection import detect_format
from contig.data.readers.names import ignored_columns, listed, plain_name
from contig.data.readers.node_files import with_node_file
from contig.data.readers.objects import open_object
from contig.data.readers.opened import READ_ERRORS, OpenedTable, Roles, read_errors
from contig.data.readers.registry import READERS, TEXT_FORMATS
from contig.data.readers.roles import (
    ALIASES,
    REQUIRED,
    ROLE_WORDS,
    check_features,
    find_roles,
    has_column,
    users_and_items,
)
from contig.data.readers.tables import open_table
from contig.data.validation import EventColumns, validate_arrays, validate_new_labels
from contig.errors import ConfigError, ContigError, DataError
from contig.files import expanded

log = logging.getLogger("contig")

FEW_ROWS = 20  # of fewer, any column may be different in each by chance
MOST_CELLS = 1_000_000  # of ignored columns that are read to see what they are


def read_events(
    source: Any,
    reading: ReadOptions | None = None,
    *,
    usual: ReadOptions | None = None,
    **options: Unpack[ReadKeywords],
) -> EventStream:
    """Read events from a file, a folder of Parquet files, or a table in memory.

    ``source`` is a path, any object that exports an Arrow stream (a pandas or polars frame, a
    DuckDB relation, a pyarrow table or reader), a polars LazyFrame, a dict of columns, a graph of
    networkx or networkx-temporal, or a TemporalData. ``options`` are the fields of ``ReadOptions``
    (``src="who", t="when"``) and override those of ``reading``. Columns that are not named are
    recognized by their names (see ``contig.data.readers``). Text files may be compressed with gzip.

    Dates become Unix seconds (without a time zone they count as UTC); ``date_format`` reads those that
    are not written in ISO 8601, such as ``"%m/%d/%Y %H:%M"``. Integer times stay int64 and
    fractional ones float64. Columns that are neither named nor recognized are ignored with a notice;
    one column may have several roles. JODIE files and columns called user... and item... are always
    bipartite. In text files blanks around a value do not count, and an id column of whole numbers holds
    integers, unless it has zero-padded or hexadecimal ids: then all its ids are text.

    ``usual`` is how the events of a run were read: its columns are used where the table has them and no other
    is named, and its features where none are named.
    """
    reading = reading_options(reading).updated(**options)
    opened = _open(source, reading)
    stream = opened if isinstance(opened, EventStream) else _build(opened, reading, usual)
    if reading.node_features is not None:
        stream = with_node_file(stream, expanded(reading.node_features))
    stream = to_encode(stream) if reading.preprocess else stream
    return require_features(stream) if reading.features is True else stream


class PairTable(NamedTuple):
    """Pairs of nodes and times, or whole events, as a file or a table holds them, in its order."""

    columns: EventColumns
    place: Callable[[int], str]  # where row i is, for messages


def read_pairs(
    source: Any,
    reading: ReadOptions | None = None,
    *,
    with_features: bool = False,
    with_labels: bool = False,
    kinds: Mapping[str, Kind] | None = None,
    usual: ReadOptions | None = None,
    **options: Unpack[ReadKeywords],
) -> PairTable:
    """Read pairs from any source that ``read_events`` takes, or a stream, in the order of its rows.

    Labels, if they are wanted, may be missing; then they are ``UNKNOWN_LABEL``. ``kinds`` says by name what
    feature columns hold, where that is not to be detected. Columns of ``usual`` are used where the table has
    them and no other is named.
    """
    reading = reading_options(reading).updated(**options)
    if reading.node_features is not None:
        raise ConfigError(
            f"node_features={reading.node_features!r}: features of nodes are read when a model is trained, "
            "not with later events; omit it."
        )
    opened = source if isinstance(source, EventStream) else _open(source, reading)
    if isinstance(opened, EventStream):
        return _pairs_of(opened, with_features, with_labels)
    reading = _as_usual(reading, usual, opened)
    roles = find_roles(opened, reading)
    roles = roles if with_labels else replace(roles, label=None)
    roles = roles if with_features else replace(roles, features=())
    with read_errors(opened.origin, "check the file or write it again."):
        return PairTable(_columns_of(opened, roles, reading.date_format, kinds), opened.place)


def _as_usual(reading: ReadOptions, usual: ReadOptions | None, table: OpenedTable) -> ReadOptions:
    """Return the options of a call, completed by the usual ones that fit the table."""
    if usual is None or reading.positional:
        return reading
    roles = [role for role, name in usual.columns.items() if has_column(table, name)]
    _reject_missing(reading, usual, table, roles)
    changes: ReadKeywords = {}
    for role in roles:
        if reading.columns[role] is None:
            changes[role] = usual.columns[role]  # type: ignore[literal-required]
    if reading.date_format is None and reading.t is None and ("t" in roles or usual.t is None):
        changes["date_format"] = usual.date_format
    if reading.features is None:
        changes["features"] = usual.features
    return reading.updated(**changes)


def _reject_missing(
    reading: ReadOptions, usual: ReadOptions, table: OpenedTable, roles: Sequence[str]
) -> None:
    """Reject a table with some of the usual columns: for the others, no other column may be taken."""
    if not set(roles) & set(REQUIRED):
        return  # it has names of its own
    for role in REQUIRED:
        name = usual.columns[role]
        if name is not None and role not in roles and reading.columns[role] is None:
            option = "time" if role == "t" else role
            raise DataError(
                f"{table.origin}: there is no column {name!r} for the {ROLE_WORDS[role]}, which the run was "
                f"trained with. There are {listed(table.names)}; name one with {role}= (--{option})."
            )


def _columns_of(
    opened: OpenedTable, roles: Roles, date_format: str | None, kinds: Mapping[str, Kind] | None
) -> EventColumns:
    """Load and validate columns of pairs, whose labels may be missing."""
    table, bare = opened.load(roles), replace(roles, label=None)
    place = {position: n for n, position in enumerate(roles.positions)}
    columns = opened.columns(bare, table.select([place[i] for i in bare.positions]), date_format, kinds)
    if roles.label is None:
        return columns
    name, values = opened.names[roles.label], table.column(place[roles.label])
    return replace(columns, label=validate_new_labels(Column(name, values, opened.origin, opened.place)))


def _pairs_of(stream: EventStream, with_features: bool, with_labels: bool) -> PairTable:
    names = stream.ids.labels
    ends, labels = (names[stream.src], names[stream.dst]), stream.label if with_labels else None
    columns = validate_arrays(*ends, stream.t, labels, None, stream.origin)
    if with_features:
        columns = replace(columns, features=stream.edge_features, feature_columns=stream.edge_columns)
    return PairTable(columns, row_place(stream.origin))


def _build(opened: OpenedTable, reading: ReadOptions, usual: ReadOptions | None) -> EventStream:
    """Find the columns of a table, validate them and make the stream."""
    reading = _as_usual(reading, usual, opened)
    roles = find_roles(opened, reading)
    if usual is None:  # the features of a run are what they were
        check_features(opened, roles)
    with read_errors(opened.origin, "check the file or write it again."):
        columns = opened.columns(roles, opened.load(roles), reading.date_format)
    bipartite = users_and_items(opened, roles) if reading.bipartite is None else reading.bipartite
    stream = EventStream.from_columns(columns, bipartite=bipartite, origin=opened.origin)
    stream = _with_notice(
        replace(stream, read_as=reading.named), opened, roles, reading, for_run=usual is not None
    )
    return stream if usual is not None else _with_empty_features_noted(stream)


def _with_empty_features_noted(stream: EventStream) -> EventStream:
    """Warn of feature columns without any value; in later events for a run they are usual."""
    if stream.edge_features is None or not stream.edge_columns:
        return stream
    names = without_values(RawFeatures(stream.edge_features, stream.edge_columns))
    if not names:
        return stream
    warning = no_values(stream.origin, names, "leave it out of --features (features=)")
    log.warning(warning)
    return replace(stream, notices=(*stream.notices, warning))


def require_features(stream: EventStream) -> EventStream:
    """Return the stream itself, or raise if it has no edge features."""
    if stream.edge_features is None:
        raise DataError(
            f"{stream.origin} has no edge features; leave out features=True (--features all), or read a "
            "file that has them."
        )
    return stream


def _open(source: Any, reading: ReadOptions) -> OpenedTable | EventStream:
    if isinstance(source, str | os.PathLike):
        with read_errors(source, "check the path and its permissions."):
            return _open_path(expanded(source), reading)
    if reading.format is not None:
        raise ConfigError(f"format={reading.format!r} is for files; omit it when reading a table.")
    if hasattr(source, "__arrow_c_stream__"):
        return open_table(source)
    if (opened := open_object(source)) is not None:
        return opened
    raise DataError(
        f"Cannot read events from an object of type {type(source).__name__}; pass a path, a table that "
        "exports an Arrow stream (pandas, polars, DuckDB, pyarrow), a dict of columns, a networkx graph or a "
        "TemporalData."
    )


def _open_path(path: Path, reading: ReadOptions) -> OpenedTable | EventStream:
    if not path.exists():
        raise DataError(f"{path}: no such file or folder.{_similar_files(path)}")
    if path.is_dir() and reading.format in TEXT_FORMATS:
        raise ConfigError(f"{path} is a folder; format={reading.format!r} is for files.")
    format = reading.format or detect_format(path)
    found = _call_reader(format, path, reading)
    if isinstance(found, OpenedTable | EventStream):
        return found
    if hasattr(found, "__arrow_c_stream__"):
        return open_table(found, str(path))
    if (opened := open_object(found)) is not None:
        return replace(opened, origin=str(path), place=row_place(str(path)))
    raise ConfigError(
        f"The reader {format!r} returned an object of type {type(found).__name__}; expected an EventStream, "
        "a table that exports an Arrow stream, or a dict of columns."
    )


def _call_reader(format: str, path: Path, reading: ReadOptions) -> Any:
    """Call a reader; one from outside the package may raise anything."""
    try:
        return READERS[format](path, reading)
    except (ContigError, OSError, *ARROW_ERRORS):
        raise
    except Exception as error:
        raise DataError(
            f"{path}: the reader for {format!r} failed with {type(error).__name__}: {error}. "
            "Use another format, or repair the reader."
        ) from error


def _similar_files(path: Path) -> str:
    siblings = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, siblings, n=3, cutoff=0.6)
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else " Check the path."


def _with_notice(
    stream: EventStream, opened: OpenedTable, roles: Roles, reading: ReadOptions, *, for_run: bool
) -> EventStream:
    """Note the columns that were not used; warn if no features were named or found.

    The notice says how to use them, except for a trained run, which takes no other columns.
    """
    used = set(roles.positions)
    positions = [i for i, name in enumerate(opened.names) if i not in used and name]
    ignored = [opened.names[i] for i in positions]
    if not ignored:
        return stream
    notice = ignored_columns(opened.origin, ignored)
    clock = next((name for name in ignored if plain_name(name) in ALIASES["t"]), None)
    if clock is not None and plain_name(opened.names[roles.t]) not in ALIASES["t"] and not for_run:
        notice += f" The times are read from {opened.names[roles.t]!r}, not from {clock!r}."
    if reading.features is not False and not for_run:
        notice += _how_to_use(opened, positions, roles, len(stream))
    if reading.features is not None or roles.features or for_run:
        log.info(notice)
    else:
        if roles.label is None:
            notice += " To predict one of them: --label COLUMN (label=)."
        log.warning(notice)
    return replace(stream, notices=(*stream.notices, notice))


def _how_to_use(opened: OpenedTable, ignored: Sequence[int], roles: Roles, rows: int) -> str:
    """Say how to use columns as features, in addition to those that are.

    A column of lists is used alone: instead of other columns, or other columns instead of it. A column that
    numbers or names the rows says nothing about later ones, and one without values says nothing at all.
    """
    features = roles.features
    usable = [i for i in ignored if i not in opened.other_columns]
    single = [i for i in usable if i not in opened.list_columns]
    if FEW_ROWS <= rows <= MOST_CELLS // max(1, len(single)):
        useless = _unusable(opened, roles, single)
        usable, single = ([i for i in found if i not in useless] for found in (usable, single))
    if not usable or (features and not single):
        return ""
    chosen = single or usable[:1]
    vectors = [i for i in features if i in opened.list_columns]
    them = "it" if len(chosen) == 1 else "them"
    if chosen != list(ignored):
        them = ", ".join(repr(opened.names[i]) for i in chosen[:10])
    them += " as a feature" if len(chosen) == 1 else " as features"
    if vectors:
        them += f" instead of {opened.names[vectors[0]]!r}"
    elif len(features) > 10:
        return f" To use {them}, name all feature columns with --features (features=)."
    listed = [opened.names[i] for i in ([] if vectors else features)] + [opened.names[i] for i in chosen[:10]]
    if any("," in name for name in listed):
        return f" To use {them}: features={listed!r}, or rename the columns with a comma for --features."
    return f" To use {them}: --features {quote(','.join(listed))} (features={listed!r})."


def _unusable(opened: OpenedTable, roles: Roles, columns: Sequence[int]) -> set[int]:
    """Return the columns that have no value, or another in every row, as order numbers; measurements may."""
    wanted = replace(roles, label=None, features=tuple(columns), raw=True)
    try:
        table = opened.load(wanted)
    except (ContigError, *READ_ERRORS):  # a column that is not used may hold anything
        return set()
    values = {i: table.column(wanted.positions.index(i)) for i in columns}
    return {
        i
        for i, column in values.items()
        if column.null_count == len(column) or (_differs(column) and not _has_fractions(column))
    }


def _differs(column: pa.ChunkedArray) -> bool:
    return column.null_count == 0 and len(column.unique()) == len(column)


def _has_fractions(column: pa.ChunkedArray) -> bool:
    try:
        numbers = column.cast(pa.float64())
    except ARROW_ERRORS:
        return False
    return not pc.all(pc.equal(pc.floor(numbers), numbers)).as_py()
