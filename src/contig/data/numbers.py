"""Columns of numbers: parsed from text, and whole ones as int64."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contig.data.columns import Column, first_true, is_text

EXACT = 2**53  # beyond it float64 skips whole numbers
TOO_LARGE = "is larger than a signed 64-bit integer holds; store a smaller number, or ids as text."


def is_number(text: str) -> bool:
    """Return whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def parsed_numbers(column: Column, problem: str) -> pa.ChunkedArray:
    """Return the values as numbers or booleans; text is parsed."""
    values = check_number_type(column)
    if is_text(values.type):
        return column.cast(pc.utf8_trim_whitespace(values), pa.float64(), problem)
    return values


def check_number_type(column: Column) -> pa.ChunkedArray:
    """Return the plain values; reject a type that holds neither numbers nor booleans nor text."""
    values, types = column.plain(), pa.types
    kinds = (types.is_integer, types.is_floating, types.is_boolean, is_text)
    if not any(is_kind(values.type) for is_kind in kinds):
        raise column.type_error("labels and features must be numbers.")
    return values


def whole_numbers(column: Column, values: pa.ChunkedArray, problem: str) -> NDArray[np.int64]:
    """Convert numbers to int64; the first that is not whole is rejected with ``problem``."""
    if pa.types.is_integer(values.type):
        integers: NDArray[np.int64] = column.cast(values, pa.int64(), TOO_LARGE).to_numpy()
        return integers
    numbers: NDArray[np.float64] = values.to_numpy().astype(np.float64)
    bad = ~np.isfinite(numbers) | (numbers != np.floor(numbers)) | (np.abs(numbers) >= EXACT)
    if bad.any():
        raise column.error(first_true(bad), problem, float(numbers[first_true(bad)]))
    return numbers.astype(np.int64)
