"""An opened table: its columns are known, and its rows are loaded once their roles are."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from contig.data.columns import ARROW_ERRORS, Column, is_list, is_text
from contig.data.feature_columns import Kind
from contig.data.validation import EventColumns, no_events, validate_columns
from contig.errors import DataError, NoEventsError

READ_ERRORS = (*ARROW_ERRORS, OSError, EOFError, MemoryError, csv.Error)


@dataclass(frozen=True)
class Roles:
    """The position of the column for each role; one column may have several."""

    src: int
    dst: int
    t: int
    label: int | None
    features: tuple[int, ...]
    raw: bool = False
    """Whether features may hold categories and missing values, which are encoded later."""

    @property
    def positions(self) -> tuple[int, ...]:
        """The columns to load, each once, those of src and dst first."""
        wanted = (self.src, self.dst, self.t, self.label, *self.features)
        return tuple(dict.fromkeys(i for i in wanted if i is not None))


@dataclass(frozen=True)
class OpenedTable:
    """A file or a table in memory with named columns, whose rows are not loaded yet."""

    origin: str
    names: Sequence[str]
    load: Callable[[Roles], pa.Table]
    """Loads the columns at ``roles.positions``, in that order."""
    place: Callable[[int], str]
    """Says where row i is, for messages."""
    list_columns: frozenset[int] = frozenset()
    other_columns: frozenset[int] = frozenset()
    """Columns that cannot be features: they hold neither numbers nor text nor lists of numbers."""
    has_header: bool = True

    def columns(
        self,
        roles: Roles,
        table: pa.Table,
        date_format: str | None = None,
        kinds: Mapping[str, Kind] | None = None,
    ) -> EventColumns:
        """Validate the columns of ``table``, which holds those at ``roles.positions``.

        ``kinds`` says by name what raw feature columns hold.
        """
        if table.num_rows == 0:
            raise no_events(self.origin, NoEventsError)
        column = {
            i: Column(self.names[i], table.column(n), self.origin, self.place)
            for n, i in enumerate(roles.positions)
        }
        return validate_columns(
            column[roles.src],
            column[roles.dst],
            column[roles.t],
            None if roles.label is None else column[roles.label],
            [column[i] for i in roles.features],
            date_format,
            raw=roles.raw,
            kinds=kinds,
        )


def list_columns(schema: pa.Schema) -> frozenset[int]:
    """Return the positions of the columns that hold lists."""
    return frozenset(i for i, kind in enumerate(schema.types) if is_list(kind))


def other_columns(schema: pa.Schema) -> frozenset[int]:
    """Return the positions of the columns that cannot be features."""
    return frozenset(i for i, kind in enumerate(schema.types) if not _can_be_features(kind))


def _can_be_features(kind: pa.DataType) -> bool:
    types = pa.types
    if is_list(kind):
        return bool(types.is_integer(kind.value_type) or types.is_floating(kind.value_type))
    if isinstance(kind, pa.BaseExtensionType):
        return _can_be_features(kind.storage_type)
    if types.is_dictionary(kind):
        return _can_be_features(kind.value_type)
    numbers = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    return is_text(kind) or types.is_null(kind) or any(is_kind(kind) for is_kind in numbers)


@contextmanager
def read_errors(origin: object, advice: str) -> Iterator[None]:
    """Turn whatever a reader or the operating system raises into a DataError."""
    try:
        yield
    except READ_ERRORS as error:
        reason = (str(error) or type(error).__name__).splitlines()[0][:300]
        if isinstance(error, csv.Error):
            advice = "check its quotes: a field may have lost the closing one."
        raise DataError(f"{origin}: cannot be read ({reason}); {advice}") from error
