"""A column of values, from an array or a table, that can say where each of them is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from contig.errors import DataError

Array = NDArray[Any]

ARROW_ERRORS = (pa.ArrowException, ValueError, OverflowError)
ARROW_DATES = ("datetime64[D]", *(f"datetime64[{unit}]" for unit in ("s", "ms", "us", "ns")))


@dataclass(frozen=True)
class Column:
    """Arrow values with what error messages need: a name, an origin and the place of a row."""

    name: str
    values: pa.ChunkedArray
    origin: str
    place: Callable[[int], str]

    @classmethod
    def of(cls, values: ArrayLike, name: str, origin: str) -> Column:
        """Make a column of array-like values, without a copy where Arrow has their type."""
        array = np.asarray(values)
        if array.ndim != 1:
            raise DataError(
                f"{origin}: column {name!r} has shape {array.shape}; expected one value per event."
            )
        return cls(name, _arrow(array, name, origin), origin, row_place(origin))

    def __len__(self) -> int:
        return len(self.values)

    def error(self, row: int, problem: str, value: object = None) -> DataError:
        """Return the error for a row: where it is, its value and the problem."""
        shown = "" if value is None else f" {shortened(repr(value))}"
        return DataError(f"{self.place(row)}, column {self.name!r}:{shown} {problem}")

    def type_error(self, expected: str) -> DataError:
        return DataError(f"{self.origin}: column {self.name!r} holds {self.values.type} values; {expected}")

    def reject_missing(self, what: str) -> None:
        if self.values.null_count:
            row = first_true(pc.is_null(self.values).to_numpy())
            raise self.error(row, f"the {what} is missing; fill it in or remove the event.")

    def cast(self, values: pa.ChunkedArray, kind: pa.DataType, problem: str) -> pa.ChunkedArray:
        """Convert ``values`` to another type; the first that does not fit is rejected with ``problem``."""
        options = pc.CastOptions.safe(kind)
        try:
            return pc.cast(values, options=options)
        except pa.ArrowNotImplementedError:
            raise self.type_error(problem) from None
        except ARROW_ERRORS:
            row = _first_uncastable(values, options)
            raise self.error(row, problem, value_at(values, row)) from None

    def check_codes(self) -> None:
        """Reject codes that the dictionary of a column does not have; Arrow never checks them."""
        row = 0
        for chunk in self.values.chunks:
            codes = pc.fill_null(chunk.indices, 0).to_numpy(zero_copy_only=False)
            if (bad := (codes < 0) | (codes >= max(len(chunk.dictionary), 1))).any():
                code = codes[first_true(bad)]
                raise self.error(
                    row + first_true(bad),
                    f"the code {code} is outside of its dictionary; the file is damaged, write it again.",
                )
            row += len(chunk)

    def plain(self) -> pa.ChunkedArray:
        """Return the values without extension types, dictionaries and decimals; text as large_string."""
        values = self.values
        if isinstance(values.type, pa.BaseExtensionType):
            values = pa.chunked_array([c.storage for c in values.chunks], values.type.storage_type)
        if pa.types.is_dictionary(values.type):
            self.check_codes()
            values = self.cast(values, values.type.value_type, "cannot be decoded; write the table again.")
        if is_text(values.type):
            as_bytes = self.cast(values, pa.large_binary(), "cannot be decoded; write the table again.")
            return self.cast(as_bytes, pa.large_string(), "is not UTF-8 text; save the text as UTF-8.")
        if pa.types.is_decimal(values.type):
            if values.type.bit_width < 128:  # which Arrow does not convert to integers
                values = values.cast(pa.decimal128(values.type.precision, values.type.scale))
            kind = pa.int64() if values.type.scale == 0 else pa.float64()
            return self.cast(values, kind, "does not fit a 64-bit number; store a smaller one.")
        return values.cast(pa.float32()) if pa.types.is_float16(values.type) else values


def row_place(origin: str) -> Callable[[int], str]:
    """Name the rows of arrays and tables, which have no line numbers."""
    return lambda row: f"{origin}, row {row} (counted from 0)"


def owned(array: Array) -> Array:
    """Return the array itself if it is read-only, else a copy."""
    return array.copy() if array.flags.writeable else array


def frozen(array: Array) -> Array:
    """Return a view that cannot be written through."""
    view = array.view()
    view.flags.writeable = False
    return view


def is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def is_text(kind: pa.DataType) -> bool:
    return str(kind) in ("string", "large_string", "string_view", "binary", "large_binary", "binary_view")


def in_words(kind: pa.DataType) -> str:
    """Name the values of a type, for messages: ``text``, ``integers``, ``lists of fractions``."""
    types = pa.types
    if is_list(kind):
        return f"lists of {in_words(kind.value_type)}"
    if types.is_dictionary(kind):
        return in_words(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return in_words(kind.storage_type)
    known = {
        "integers": types.is_integer,
        "fractions": types.is_floating,
        "decimal numbers": types.is_decimal,
        "true/false values": types.is_boolean,
        "dates": lambda kind: types.is_timestamp(kind) or types.is_date(kind),
        "times of day": types.is_time,
        "durations": types.is_duration,
        "text": lambda kind: is_text(kind) and "string" in str(kind),
        "bytes": lambda kind: is_text(kind) or types.is_fixed_size_binary(kind),
        "groups of columns": types.is_struct,
        "no values": types.is_null,
    }
    return next((words for words, fits in known.items() if fits(kind)), f"{kind} values")


def first_true(mask: Array) -> int:
    return int(np.argmax(mask))


def shortened(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."


def value_at(values: pa.ChunkedArray, row: int) -> object:
    """Return a value for an error message."""
    try:
        return values[row].as_py()
    except (*ARROW_ERRORS, KeyError):  # a timestamp or a time zone that Python does not know
        kind = pa.int32() if pa.types.is_date32(values.type) else pa.int64()
        return values.slice(row, 1).cast(kind)[0].as_py()


def _arrow(array: Array, name: str, origin: str) -> pa.ChunkedArray:
    if array.dtype.kind == "M" and array.dtype.name not in ARROW_DATES:
        array = _as_arrow_dates(array, name, origin)
    try:
        values = pa.array(array, from_pandas=array.dtype.kind == "O")
    except ARROW_ERRORS as error:
        if array.dtype.kind != "O":
            raise DataError(
                f"{origin}: column {name!r} holds {array.dtype} values; expected numbers, text or dates."
            ) from error
        mixed = [None if value is None or value != value else str(value) for value in array.tolist()]
        values = pa.array(mixed, pa.large_string())
    return values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])


def _as_arrow_dates(array: Array, name: str, origin: str) -> Array:
    """Convert dates of a unit that Arrow does not have; reject those that do not fit another unit."""
    finer = array.dtype.name in ("datetime64[ps]", "datetime64[fs]", "datetime64[as]")
    dates: Array = array.astype("datetime64[ns]" if finer else "datetime64[s]")
    changed = dates.astype(array.dtype).view(np.int64) != array.view(np.int64)
    if changed.any():
        row = first_true(changed)
        raise DataError(
            f"{row_place(origin)(row)}, column {name!r}: {array[row]} is finer than a nanosecond "
            "or too far from 1970; round it."
        )
    return dates


def _first_uncastable(values: pa.ChunkedArray, options: pc.CastOptions) -> int:
    low, high = 0, len(values) - 1
    while low < high:
        middle = (low + high) // 2
        try:
            pc.cast(values.slice(low, middle - low + 1), options=options)
        except ARROW_ERRORS:
            high = middle
        else:
            low = middle + 1
    return low
