"""A column of Arrow values that can say where a fault stands."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from contig.data.readers.sources import READ_ERRORS, Source
from contig.data.readers.tables import is_text
from contig.data.readers.words import clipped
from contig.data.validation import Array
from contig.errors import DataError


@dataclass(frozen=True)
class Column:
    """One column of what was read; row i of it is row i of the source."""

    source: Source
    position: int
    values: pa.ChunkedArray

    @property
    def name(self) -> str:
        return self.source.names[self.position]

    def wrong(self, row: int, problem: str, value: object = None) -> DataError:
        told = "" if value is None else f" {clipped(repr(value))}"
        return DataError(f"{self.source.place(row)}, column {self.name!r}:{told} {problem}")

    def wrong_type(self, expected: str) -> DataError:
        kind = self.values.type
        return DataError(f"{self.source.origin}: column {self.name!r} holds {kind} values; {expected}")

    def refuse_nulls(self, what: str) -> None:
        if self.values.null_count:
            row = first(pc.is_null(self.values).to_numpy())
            raise self.wrong(row, f"the {what} is missing; give the event one or remove it.")

    def cast(self, values: pa.ChunkedArray, kind: pa.DataType, problem: str) -> pa.ChunkedArray:
        """``values`` as another type; the first one that does not fit is refused with ``problem``."""
        options = pc.CastOptions(target_type=kind, allow_time_truncate=True)
        try:
            return pc.cast(values, options=options)
        except pa.ArrowNotImplementedError:
            raise self.wrong_type(problem) from None
        except READ_ERRORS:
            row = _first_uncastable(values, options)
            raise self.wrong(row, problem, value_at(values, row)) from None

    def plain(self) -> pa.ChunkedArray:
        """The values without wrapping: numbers, booleans, moments or large_string, where they are that."""
        values = self.values
        if isinstance(values.type, pa.BaseExtensionType):
            values = pa.chunked_array([c.storage for c in values.chunks], values.type.storage_type)
        if pa.types.is_dictionary(values.type):
            values = self.cast(values, values.type.value_type, "cannot be decoded; write the table again.")
        if is_text(values.type):
            as_bytes = self.cast(values, pa.large_binary(), "cannot be decoded; write the table again.")
            return self.cast(as_bytes, pa.large_string(), "is not UTF-8 text; save the text as UTF-8.")
        if pa.types.is_decimal(values.type):
            kind = pa.int64() if values.type.scale == 0 else pa.float64()
            return self.cast(values, kind, "does not fit a 64-bit number; store a smaller one.")
        return values.cast(pa.float32()) if pa.types.is_float16(values.type) else values


def first(mask: Array) -> int:
    """The first row that is marked."""
    return int(np.argmax(mask))


def value_at(values: pa.ChunkedArray, row: int) -> object:
    """A value for a message."""
    try:
        return values[row].as_py()
    except (*READ_ERRORS, KeyError):  # a moment or a time zone that Python does not know
        return values.slice(row, 1).cast(pa.int64())[0].as_py()


def _first_uncastable(values: pa.ChunkedArray, options: pc.CastOptions) -> int:
    low, high = 0, len(values) - 1
    while low < high:
        middle = (low + high) // 2
        try:
            pc.cast(values.slice(low, middle - low + 1), options=options)
        except READ_ERRORS:
            high = middle
        else:
            low = middle + 1
    return low
