"""The Parquet files to index, and the SQL that reads their columns in the types of a stream."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from contig.data.numbers import EXACT
from contig.data.read_options import INDEX_OPTIONS, ReadOptions
from contig.data.readers.opened import Roles
from contig.data.readers.parquet import check_types, open_files, parquet_files
from contig.data.readers.roles import find_roles, users_and_items
from contig.data.time_columns import BAD_TIME, TOO_FINE
from contig.data.validation import BAD_ID, BAD_LABEL, BAD_TEXT_ID, UNKNOWN_LABEL
from contig.errors import ConfigError, DataError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

INTEGER = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?")
FLOAT = re.compile(r"FLOAT|DOUBLE")
NUMBER_LIST = re.compile(r"(FLOAT|DOUBLE|U?(TINY|SMALL|BIG)?INT(EGER)?)\[\d*\]")
DATE = re.compile(r"DATE|TIMESTAMP.*")


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


def find_sources(
    given: Sequence[Path], reading: ReadOptions, connection: DuckDBPyConnection, origin: str
) -> Sources:
    """Find the columns of the files, and how each is read."""
    paths = tuple(path for one in given for path in parquet_files(one))
    _reject_options(reading)
    opened = open_files(paths, Path(origin))
    roles = find_roles(opened, reading)
    _reject_encoding(roles, origin)
    names = list(opened.names)
    check_types(paths, [names[i] for i in roles.positions])
    table = f"read_parquet([{_listed(paths)}])"
    described = connection.execute(f"DESCRIBE SELECT * FROM {table}").fetchall()
    types = {name: kind for name, kind, *_ in described}
    text = any(types[names[i]] == "VARCHAR" for i in (roles.src, roles.dst))
    kind = types[names[roles.t]]
    label = None if roles.label is None else _label(names[roles.label], types)
    return Sources(
        paths=paths,
        src=_id_column(names[roles.src], types, text, origin),
        dst=_id_column(names[roles.dst], types, text, origin),
        t=_time_column(names[roles.t], kind, origin),
        label=label,
        features=_feature_column([names[i] for i in roles.features], types, origin),
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
            f"{origin}: an index takes features as they are, without encoding them: store them as lists of "
            "numbers or as columns f0, f1, ..., or leave them out (features=False, --features none)."
        )


def _id_column(name: str, types: dict[str, str], text: bool, origin: str) -> EventColumn:
    column, kind = _quoted(name), types[name]
    checks = [Check(f"{column} IS NULL", name, "the id is missing; fill it in or remove the event.")]
    if kind == "VARCHAR":
        checks.append(Check(f"{column} = '' OR contains({column}, chr(0))", name, BAD_TEXT_ID))
    elif FLOAT.fullmatch(kind):
        checks.append(Check(_not_whole(column), name, BAD_ID))
    elif not INTEGER.fullmatch(kind):
        raise _wrong_type(origin, name, kind, "ids must be integers or text.")
    sql = column if kind == "VARCHAR" else f"CAST({column} AS BIGINT)"
    return EventColumn(name, f"CAST({sql} AS VARCHAR)" if text else sql, tuple(checks))


def _time_column(name: str, kind: str, origin: str) -> EventColumn:
    column = _quoted(name)
    missing = Check(f"{column} IS NULL", name, "the time is missing; fill it in or remove the event.")
    if INTEGER.fullmatch(kind):
        return EventColumn(name, f"CAST({column} AS BIGINT)", (missing,))
    if FLOAT.fullmatch(kind):
        bad = Check(f"NOT isfinite({column})", name, BAD_TIME)
        return EventColumn(name, f"CAST({column} AS DOUBLE)", (missing, bad))
    if not DATE.fullmatch(kind):
        raise _wrong_type(origin, name, kind, "times must be numbers or timestamps; convert the column.")
    checks = [missing, Check(f"NOT isfinite({column})", name, BAD_TIME)]
    if kind == "TIMESTAMP_NS":
        checks.append(Check(f"epoch_ns({column}) % 1000 <> 0", name, TOO_FINE))
    return EventColumn(name, f"epoch_us({column})", tuple(checks))


def _label(name: str, types: dict[str, str]) -> EventColumn:
    """Return the column of the labels; one that is missing or NaN is not known."""
    known, checks = _quoted(name), []
    if FLOAT.fullmatch(types[name]):
        known = f"nullif({known}, 'nan'::DOUBLE)"
        checks.append(Check(_not_whole(known), name, BAD_LABEL))
    return EventColumn(name, f"coalesce(CAST({known} AS BIGINT), {UNKNOWN_LABEL})", tuple(checks))


def _feature_column(names: Sequence[str], types: dict[str, str], origin: str) -> EventColumn | None:
    if not names:
        return None
    for name in names:
        fits = (
            NUMBER_LIST
            if len(names) == 1 and "[" in types[name]
            else re.compile(f"{INTEGER.pattern}|{FLOAT.pattern}|BOOLEAN")
        )
        if not fits.fullmatch(types[name]):
            raise _wrong_type(origin, name, types[name], "features must be numbers.")
    if len(names) == 1 and "[" in types[names[0]]:
        return EventColumn(names[0], f"CAST({_quoted(names[0])} AS FLOAT[])")
    numbers = ", ".join(f"CAST({_quoted(name)} AS FLOAT)" for name in names)
    return EventColumn(", ".join(names), f"list_value({numbers})")


def _not_whole(column: str) -> str:
    return f"NOT isfinite({column}) OR {column} <> floor({column}) OR abs({column}) >= {EXACT}"


def _wrong_type(origin: str, name: str, kind: str, expected: str) -> DataError:
    return DataError(f"{origin}: column {name!r} holds {kind} values; {expected}")


def _listed(paths: Sequence[Path]) -> str:
    return ", ".join(sql_text(str(path)) for path in paths)


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def sql_text(value: str) -> str:
    """Return a text as SQL writes it."""
    escaped = value.replace("'", "''")
    return f"'{escaped}'"
