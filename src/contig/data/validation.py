"""Columns as callers hand them over, checked and brought to the types a stream has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from contig.errors import DataError

Array = NDArray[Any]


def owned(array: Array) -> Array:
    """The array itself if nobody can write to it, else a copy: the stream must not change."""
    return array.copy() if array.flags.writeable else array


def frozen(array: Array) -> Array:
    """A view that cannot be written through."""
    view = array.view()
    view.flags.writeable = False
    return view


def id_column(values: ArrayLike, name: str, origin: str) -> Array:
    """Node ids as int64 or as strings; anything else is refused."""
    column, where = _one_dimensional(values, name, origin)
    kind = column.dtype.kind
    if kind in "iu":
        cure = "pass the ids as strings."
        return _int64(column, where, f"id {{}} is larger than a signed 64-bit integer holds; {cure}")
    if kind == "f":
        cure = "ids must be integers or strings, and every event needs both."
        _refuse(np.isnan(column), column, where, f"id {{}} is missing; {cure}")
        return _whole(column, column, where, f"id {{}} is not a whole number; {cure}")
    if kind == "O":
        missing = np.array([value is None or value != value for value in column.tolist()], dtype=bool)
        cure = "drop the row or give it an id (integer or string)."
        _refuse(missing, column, where, f"the id is missing; {cure}")
        return column.astype(np.str_)
    if kind == "U":
        return column
    raise DataError(f"{where} holds {column.dtype} values; ids must be integers or strings.")


def time_column(values: ArrayLike, origin: str) -> Array:
    """Times as int64 or float64, all finite. datetime64 becomes Unix seconds."""
    column, where = _one_dimensional(values, "t", origin)
    if column.dtype.kind == "M":
        return _moments(column, where)
    if column.dtype.kind in "iu":
        cure = "count time from a later start."
        return _int64(column, where, f"time {{}} is larger than a signed 64-bit integer holds; {cure}")
    times = _float64(column, where, "times must be numbers or datetimes.")
    cure = "every event needs a real time: drop the row or repair it."
    _refuse(~np.isfinite(times), times, where, f"time {{}} is not finite; {cure}")
    return times


def unix_seconds(column: Array) -> Array:
    """datetime64 values as seconds since 1970: int64 where they are whole, else float64."""
    micros = column.astype("datetime64[us]").astype(np.int64)
    whole, rest = np.divmod(micros, 1_000_000)
    return whole if not rest.any() else micros / 1e6


def label_column(values: ArrayLike, origin: str) -> NDArray[np.int64]:
    """Labels as int64; whole numbers of any type, written ones too."""
    column, where = _one_dimensional(values, "label", origin)
    numbers = _float64(column, where, "labels must be whole numbers.")
    return _whole(
        numbers, column, where, "{} is not a whole number; labels are class numbers such as 0 and 1."
    )


def feature_matrix(values: ArrayLike, origin: str, name: str = "edge_features") -> NDArray[np.float32]:
    """Features as float32 ``[rows, width]``, all finite."""
    try:
        with np.errstate(over="ignore"):  # a float64 beyond float32 becomes inf and is named below
            matrix = np.asarray(values, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise DataError(f"{origin}: {name} are not a table of numbers ({error}).") from None
    if matrix.ndim != 2:
        raise DataError(
            f"{origin}: {name} has shape {matrix.shape}; expected one row per item: [rows, width]."
        )
    finite = np.isfinite(matrix)
    if not finite.all():
        row, col = (int(x) for x in np.argwhere(~finite)[0])
        raise DataError(
            f"{origin}: {name}, row {row}, feature {col}: {matrix[row, col]} is not a finite float32; "
            "fill missing features (0 is usual) and scale very large ones before loading."
        )
    return matrix


def check_lengths(columns: Mapping[str, Array | None], origin: str) -> None:
    """Refuse columns of different lengths, and empty ones."""
    lengths = {name: len(c) for name, c in columns.items() if c is not None}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} {n:,}" for name, n in lengths.items())
        raise DataError(f"{origin}: columns differ in length ({told}); every event needs one value in each.")
    if not lengths["src"]:
        raise DataError(f"{origin}: there are no events; a stream needs at least one.")


def _one_dimensional(values: ArrayLike, name: str, origin: str) -> tuple[Array, str]:
    """The values as an array, and what the column is called in messages."""
    column, where = np.asarray(values), f"{origin}: column {name!r}"
    if column.ndim != 1:
        raise DataError(f"{where} has shape {column.shape}; expected one value per event.")
    return column, where


def _refuse(bad: NDArray[np.bool_], column: Array, where: str, problem: str) -> None:
    """Refuse the first row that is bad; ``{}`` in ``problem`` stands for its value."""
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(f"{where}, row {row}: {problem.format(column[row])}")


def _int64(column: Array, where: str, problem: str) -> NDArray[np.int64]:
    if column.dtype == np.uint64:
        _refuse(column > np.iinfo(np.int64).max, column, where, problem)
    return column.astype(np.int64, copy=False)


def _float64(column: Array, where: str, cure: str) -> NDArray[np.float64]:
    try:
        return column.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise DataError(f"{where} holds {column.dtype} values ({error}); {cure}") from None


def _whole(numbers: Array, column: Array, where: str, problem: str) -> NDArray[np.int64]:
    """Floats as int64; ``column`` holds them as they were given."""
    bad = ~np.isfinite(numbers) | (numbers != np.floor(numbers)) | (np.abs(numbers) >= 2**53)
    _refuse(bad, column, where, problem)
    return numbers.astype(np.int64)


def _moments(column: Array, where: str) -> Array:
    _refuse(np.isnat(column), column, where, "the time is missing; drop the row.")
    seconds = column.astype("datetime64[s]")
    far = column.astype("datetime64[us]").astype("datetime64[s]") != seconds  # numpy wraps around
    _refuse(far, column, where, "time {} lies too far from 1970 to count microseconds; repair it.")
    return unix_seconds(column)
