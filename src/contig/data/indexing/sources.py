"""The Parquet files to index, and the SQL that reads their columns in the types of a stream."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from contig.data.columns import in_words
from contig.data.indexing.database import Database, sql_text
from contig.data.numbers import EXACT, TOO_LARGE
from contig.data.read_options import INDEX_OPTIONS, ReadOptions
from contig.data.readers.names import ignored_columns
from contig.data.readers.opened import Roles
from contig.data.readers.parquet import common_types, open_files, parquet_files
from contig.data.readers.roles import check_features, find_roles, users_and_items
from contig.data.time_columns import TOO_FINE
from contig.data.validation import BAD_ID, BAD_LABEL, BAD_TEXT_ID, EMPTY_ID, LABEL_WORDS, UNKNOWN_LABEL
from contig.errors import ConfigError, DataError

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("contig")

INTEGER = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?")
FLOAT = re.compile(r"FLOAT|DOUBLE")
NUMBER_LIST = re.compile(r"(FLOAT|DOUBLE|U?(TINY|SMALL|BIG)?INT(EGER)?)\[\d*\]")
NUMBER = re.compile(f"{INTEGER.pattern}|{FLOAT.pattern}|BOOLEAN")
DECIMAL = re.compile(r"DECIMAL\(\d+,\d+\)")
DATE = re.compile(r"DATE|TIMESTAMP.*")
TEXT = "VARCHAR"
NOTHING = '"NULL"'  # of a column without any value
LARGEST = 2**63 - 1
NOT_FINITE_TIME = "is not a time; times are finite numbers or dates. Fix or remove the event."
BAD_CLASS = f"{BAD_LABEL} Convert the column first."
FEATURES = " Features of an index are columns of numbers f0, f1, ..., or one of lists of numbers."
SPACES = " \t\n\r\v\f"


class Check(NamedTuple):
    """A condition that no row may meet."""

    condition: str  # in SQL
    column: str
    problem: str


@dataclass(frozen=True)
class EventColumn:
    """A column of the stream: the SQL that computes it, and what is wrong with a row."""

    name: str
    sql: str
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True)
class Sources:
    """Parquet files that hold one stream, in their order."""

    paths: tuple[Path, ...]
    src: EventColumn
    dst: EventColumn
    t: EventColumn
    label: EventColumn | None
    features: EventColumn | None
    text_ids: bool
    dates: bool  # times are microseconds since 1970
    float_times: bool
    bipartite: bool | None

    @property
    def columns(self) -> list[EventColumn]:
        """Return the columns that there are."""
        return [one for one in (self.src, self.dst, self.t, self.label, self.features) if one is not None]

    @property
    def table(self) -> str:
        """Return the SQL of all rows, with their places: ``file_index`` and ``file_row_number``."""
        return f"read_parquet([{_listed(self.paths)}], file_row_number=true)"

    def place(self, file: int, row: int) -> str:
        """Name a row in a message."""
        return f"{self.paths[file]}, row {row} (counted from 0)"


@dataclass(frozen=True)
class _Types:
    """The types of the columns, by name."""

    origin: str
    sql: dict[str, str]  # as DuckDB calls them
    stored: dict[str, pa.DataType]  # of the columns that are used

    def error(self, name: str, expected: str) -> DataError:
        """Return the error for a column of another type."""
        return DataError(f"{self.origin}: column {name!r} holds {in_words(self.stored[name])}; {expected}")


def find_sources(given: Sequence[Path], reading: ReadOptions, database: Database, origin: str) -> Sources:
    """Find the columns of the files, and how each is read."""
    paths = tuple(path for one in given for path in parquet_files(one))
    _reject_options(reading)
    opened = open_files(database.each(paths), Path(origin))
    roles = find_roles(opened, reading)
    check_features(opened, roles)
    _reject_encoding(roles, origin)
    if ignored := [name for i, name in enumerate(opened.names) if i not in roles.positions and name]:
        advice = "" if roles.features or reading.features is False else FEATURES
        log.info(ignored_columns(origin, ignored) + advice)
    names = list(opened.names)
    stored = common_types(database.each(paths), [names[i] for i in roles.positions])
    table = f"read_parquet([{_listed(paths)}])"
    described = database.rows(f"DESCRIBE SELECT * FROM {table}")
    types = _Types(origin, {name: kind for name, kind, *_ in described}, stored)
    text = any(types.sql[names[i]] == TEXT for i in (roles.src, roles.dst))
    kind = types.sql[names[roles.t]]
    label = None if roles.label is None else _label_column(names[roles.label], types)
    return Sources(
        paths=paths,
        src=_id_column(names[roles.src], types, text),
        dst=_id_column(names[roles.dst], types, text),
        t=_time_column(names[roles.t], types),
        label=label,
        features=_feature_column([names[i] for i in roles.features], types),
        text_ids=text,
        dates=bool(DATE.fullmatch(kind)),
        float_times=bool(FLOAT.fullmatch(kind)),
        bipartite=users_and_items(opened, roles) if reading.bipartite is None else reading.bipartite,
    )


def _reject_options(reading: ReadOptions) -> None:
    for option in reading.as_dict():
        if option not in INDEX_OPTIONS:
            raise ConfigError(
                f"{option!r} does not apply to an index, which takes {', '.join(INDEX_OPTIONS)} only."
            )


def _reject_encoding(roles: Roles, origin: str) -> None:
    if roles.raw:
        raise ConfigError(
            f"{origin}: an index takes features as they are, without standardizing or encoding them. Rename "
            "columns of numbers to f0, f1, ..., or store them as one column of lists; encode others first. "
            "Or leave features out (features=False, --features none)."
        )


def _id_column(name: str, types: _Types, text: bool) -> EventColumn:
    column, kind = _quoted(name), types.sql[name]
    checks = [Check(f"{column} IS NULL", name, "the id is missing; fill it in or remove the event.")]
    if kind == TEXT:
        checks += [Check(f"{column} = ''", name, EMPTY_ID)]
        checks += [Check(f"contains({column}, chr(0))", name, BAD_TEXT_ID)]
    elif FLOAT.fullmatch(kind):
        checks.append(Check(_not_whole(column), name, BAD_ID))
    elif not INTEGER.fullmatch(kind):
        raise types.error(name, "ids must be integers or text. Convert the column first.")
    checks += _too_large(name, kind)
    sql = column if kind == TEXT else f"CAST({column} AS BIGINT)"
    return EventColumn(name, f"CAST({sql} AS VARCHAR)" if text else sql, tuple(checks))


def _time_column(name: str, types: _Types) -> EventColumn:
    column, kind = _quoted(name), types.sql[name]
    missing = Check(f"{column} IS NULL", name, "the time is missing; fill it in or remove the event.")
    if INTEGER.fullmatch(kind):
        return EventColumn(name, f"CAST({column} AS BIGINT)", (missing, *_too_large(name, kind)))
    if FLOAT.fullmatch(kind):
        bad = Check(f"NOT isfinite({column})", name, NOT_FINITE_TIME)
        return EventColumn(name, f"CAST({column} AS DOUBLE)", (missing, bad))
    if not DATE.fullmatch(kind):
        parsed = f"strptime({column}, '%Y-%m-%d') AS {column}"
        example = f"COPY (SELECT * REPLACE ({parsed}) FROM 'a.parquet') TO 'b.parquet'"
        cure = f", for instance with DuckDB: {example}." if kind == TEXT else "."
        raise types.error(name, f"times must be numbers or dates. Convert the column first{cure}")
    checks = [missing, Check(f"NOT isfinite({column})", name, NOT_FINITE_TIME)]
    if kind == "TIMESTAMP_NS":
        checks.append(Check(f"epoch_ns({column}) % 1000 <> 0", name, TOO_FINE))
    return EventColumn(name, f"epoch_us({column})", tuple(checks))


def _label_column(name: str, types: _Types) -> EventColumn:
    """Return the column of the labels; one that is missing, NaN or empty text is not known."""
    known, kind, checks = _quoted(name), types.sql[name], _too_large(name, types.sql[name])
    if FLOAT.fullmatch(kind):
        known = f"nullif({known}, 'nan'::DOUBLE)"
        checks.append(Check(_not_whole(known), name, BAD_CLASS))
    elif kind == TEXT:
        written = f"nullif(trim({known}, {sql_text(SPACES)}), '')"
        known = f"TRY_CAST({_without_words(written)} AS DOUBLE)"
        bad = f"{known} IS NULL OR contains({written}, '_') OR {_not_whole(known)}"
        checks.append(Check(f"{written} IS NOT NULL AND ({bad})", name, BAD_CLASS))
    elif DECIMAL.fullmatch(kind):
        checks.append(Check(f"{known} <> floor({known})", name, BAD_CLASS))
        checks.append(Check(f"{known} IS NOT NULL AND TRY_CAST({known} AS BIGINT) IS NULL", name, TOO_LARGE))
    elif not (INTEGER.fullmatch(kind) or kind in ("BOOLEAN", NOTHING)):
        raise types.error(name, "labels must be whole numbers. Convert the column first.")
    return EventColumn(name, f"coalesce(CAST({known} AS BIGINT), {UNKNOWN_LABEL})", tuple(checks))


def _without_words(text: str) -> str:
    """Return the SQL of labels with numbers for yes and no."""
    meanings = ((number, ", ".join(map(sql_text, words))) for number, words in LABEL_WORDS.items())
    cases = " ".join(f"WHEN lower({text}) IN ({words}) THEN '{number}'" for number, words in meanings)
    return f"CASE {cases} ELSE {text} END"


def _too_large(name: str, kind: str) -> list[Check]:
    """Return the check for integers that the columns of a stream cannot hold."""
    return [Check(f"{_quoted(name)} > {LARGEST}", name, TOO_LARGE)] if kind == "UBIGINT" else []


def _feature_column(names: Sequence[str], types: _Types) -> EventColumn | None:
    """Return the lists of features; a number beyond float32 becomes a missing one."""
    if not names:
        return None
    listed = len(names) == 1 and "[" in types.sql[names[0]]
    for name in names:
        if not (NUMBER_LIST if listed else NUMBER).fullmatch(types.sql[name]):
            raise types.error(
                name, "features must be numbers, or lists of numbers. Convert the column first."
            )
    if listed:
        return EventColumn(names[0], f"TRY_CAST({_quoted(names[0])} AS FLOAT[])")
    numbers = ", ".join(f"TRY_CAST({_quoted(name)} AS FLOAT)" for name in names)
    return EventColumn(", ".join(names), f"list_value({numbers})")


def _not_whole(column: str) -> str:
    return f"NOT isfinite({column}) OR {column} <> floor({column}) OR abs({column}) >= {EXACT}"


def _listed(paths: Sequence[Path]) -> str:
    return ", ".join(sql_text(str(path)) for path in paths)


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
