"""A source of events: what every reader opens, and which of its columns it is asked for."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from contig.errors import DataError

FORMATS = ("parquet", "csv", "tsv", "jodie", "snap")

READ_ERRORS = (pa.ArrowException, OSError, EOFError, ValueError, OverflowError, MemoryError, csv.Error)


@dataclass(frozen=True)
class Roles:
    """Which column (by position) plays which part; one may play several."""

    src: int
    dst: int
    t: int
    label: int | None
    features: tuple[int, ...]

    @property
    def positions(self) -> tuple[int, ...]:
        """The columns that are needed, each once, those of src and dst first."""
        wanted = (self.src, self.dst, self.t, self.label, *self.features)
        return tuple(dict.fromkeys(i for i in wanted if i is not None))


@dataclass(frozen=True)
class Source:
    """A file or table whose columns are known and whose rows are not read yet."""

    origin: str
    names: Sequence[str]
    load: Callable[[Roles], pa.Table]
    """Reads the columns at ``roles.positions``, in that order."""
    place: Callable[[int], str]
    """Where row i stands, for messages."""
    list_columns: frozenset[int] = frozenset()
    has_header: bool = True


@contextmanager
def refusing(origin: object, cure: str) -> Iterator[None]:
    """Turn whatever a reader or the operating system throws into a DataError."""
    try:
        yield
    except READ_ERRORS as error:
        reason = (str(error) or type(error).__name__).splitlines()[0][:300]
        raise DataError(f"{origin}: cannot be read ({reason}); {cure}") from error


def no_events(origin: object, where: str) -> DataError:
    return DataError(f"{origin}: there are no events {where}; a stream needs at least one.")
