"""Feature columns as they are in a file: numbers and categories, some of them missing.

They are kept in one float32 matrix, ``[rows, columns]``: a missing value is NaN, and a category is its
position among the names of its column. ``contig.data.feature_plan`` turns them into features for models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contig.data.columns import ARROW_ERRORS, Column, first_true, is_text, row_place
from contig.errors import DataError

Features = NDArray[np.float32]
Kind = Literal["number", "category"]

MOSTLY = 0.9  # a text column of which this share is numbers has wrong numbers rather than categories
MOST_CATEGORIES = 2**24  # that float32 tells apart
MISSING_WORDS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "#N/A")


@dataclass(frozen=True)
class FeatureColumn:
    """The name of a column, and those of its categories in ascending order; None for numbers."""

    name: str
    categories: tuple[str, ...] | None = None

    @property
    def kind(self) -> Kind:
        return "number" if self.categories is None else "category"


@dataclass(frozen=True, eq=False)
class RawFeatures:
    """The values of feature columns, ``[rows, columns]``; NaN where one is missing."""

    values: Features
    columns: tuple[FeatureColumn, ...]


def raw_features(columns: Sequence[Column], kinds: Mapping[str, Kind] | None = None) -> RawFeatures:
    """Read columns of numbers, booleans or text.

    ``kinds`` says by name what columns hold; in all others, text that is not numeric is categories.
    """
    found = [_read(column, (kinds or {}).get(column.name)) for column in columns]
    values = np.stack([values for values, _ in found], axis=1)
    return RawFeatures(values, tuple(column for _, column in found))


def without_values(raw: RawFeatures) -> list[str]:
    """Return the names of the columns in which every value is missing."""
    return [c.name for c, values in zip(raw.columns, raw.values.T, strict=True) if np.isnan(values).all()]


def no_values(origin: object, names: Sequence[str], cure: str) -> str:
    """Return the warning of columns in which every value is missing; ``cure`` ends it, as for one column."""
    shown = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
    kind = "feature column" if len(names) == 1 else "feature columns"
    return (
        f"{origin}: every value of the {kind} {shown} is missing, so that the model sees a constant and "
        f"learns nothing from it. Fill it in, or {cure}."
    )


def as_kinds(raw: RawFeatures, kinds: Mapping[str, Kind], origin: str) -> RawFeatures:
    """Return features whose columns are of these kinds: numbers as text, or text parsed as numbers."""
    if all(kinds.get(column.name, column.kind) == column.kind for column in raw.columns):
        return raw
    place = row_place(origin)
    columns = [
        Column(name, pa.chunked_array([values]), origin, place) for name, values in arrow_columns(raw).items()
    ]
    return raw_features(columns, {column.name: column.kind for column in raw.columns} | dict(kinds))


def _read(column: Column, kind: Kind | None) -> tuple[Features, FeatureColumn]:
    values = column.plain()
    if pa.types.is_null(values.type):
        values = values.cast(pa.large_string())
    if kind == "category":
        return _categories(column, _present(_written(column, values)))
    if is_text(values.type):
        text = _present(values)
        numbers = _parsed(column, text) if kind is None else _parsed_number(column, text)
        if numbers is not None:
            return _numbers(column, numbers)
        _reject_dates(column, text)
        return _categories(column, text)
    types = pa.types
    if types.is_integer(values.type) or types.is_floating(values.type) or types.is_boolean(values.type):
        return _numbers(column, values)
    raise column.type_error("labels and features must be numbers or categories.")


def _present(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return text without blanks around it, and null where it says that a value is missing."""
    text = pc.utf8_trim_whitespace(values)
    return pc.if_else(pc.is_in(text, value_set=pa.array(MISSING_WORDS, text.type)), None, text)


def _written(column: Column, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return categories as text; whole numbers are written without a decimal point."""
    if is_text(values.type):
        return values
    text = column.cast(values, pa.large_string(), "is not a category; use text or a number.")
    return pc.replace_substring_regex(text, r"\.0$", "") if pa.types.is_floating(values.type) else text


def _parsed_number(column: Column, text: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return text as numbers, and true and false as 1 and 0; anything else is rejected."""
    flags = pc.utf8_lower(text)
    if pc.all(pc.is_in(flags, value_set=pa.array(["true", "false", None], flags.type))).as_py():
        return pc.equal(flags, "true")
    problem = "is not a number, but this column held numbers in training; correct it, or leave it empty."
    return column.cast(text, pa.float64(), problem)


def _parsed(column: Column, text: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Return text as numbers, or None if it holds categories; a few wrong numbers are rejected."""
    try:
        return text.cast(pa.float64())
    except ARROW_ERRORS:
        pass
    present = pc.drop_null(text)
    numeric = pc.match_substring_regex(present, r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$")
    if pc.mean(numeric).as_py() < MOSTLY:
        return None
    problem = f"is not a number, but most values of {column.name!r} are; correct it, or leave it empty."
    return column.cast(text, pa.float64(), problem)


def _reject_dates(column: Column, text: pa.ChunkedArray) -> None:
    """Reject dates, whose values would all be different categories."""
    first = pc.drop_null(text).slice(0, 1)
    try:
        first.cast(pa.timestamp("us"))
    except ARROW_ERRORS:
        return
    problem = "is not a number; features must be numbers or categories, and dates are neither."
    raise column.error(first_true(pc.is_valid(text).to_numpy()), problem, first[0].as_py())


def _numbers(column: Column, values: pa.ChunkedArray) -> tuple[Features, FeatureColumn]:
    with np.errstate(over="ignore"):  # what is beyond float32 becomes inf and is rejected
        numbers: Features = values.cast(pa.float64(), safe=False).to_numpy().astype(np.float32)
    if (bad := np.isinf(numbers)).any():
        row = first_true(bad)
        raise column.error(
            row,
            f"the feature {values[row].as_py()} is not a finite float32; correct, scale or omit it.",
        )
    return numbers, FeatureColumn(column.name)


def _categories(column: Column, text: pa.ChunkedArray) -> tuple[Features, FeatureColumn]:
    names = sorted(pc.unique(pc.drop_null(text)).to_pylist())
    if len(names) > MOST_CATEGORIES:
        raise DataError(
            f"{column.origin}: column {column.name!r} has {len(names):,} different values, too many for "
            "categories; leave it out of the features."
        )
    codes = pc.index_in(text, value_set=pa.array(names, text.type))
    return codes.cast(pa.float32()).to_numpy(), FeatureColumn(column.name, tuple(names))


def arrow_columns(raw: RawFeatures) -> dict[str, pa.Array]:
    """Return the columns as they were in the file, by name."""
    found = {}
    for values, column in zip(raw.values.T, raw.columns, strict=True):
        missing = np.isnan(values)
        if column.categories is None:
            found[column.name] = pa.array(values, mask=missing)
        else:
            codes = pa.array(np.where(missing, 0, values).astype(np.int64), mask=missing)
            found[column.name] = pa.array(column.categories, pa.string()).take(codes)
    return found
