"""What ids, times, labels and features must be, whether they come from arrays, tables or files.

Every value that does not qualify is rejected with its place: for files the line or row, for arrays
and tables the row counted from 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from contig.data.columns import (
    Array,
    Column,
    first_true,
    is_list,
    is_text,
    owned,
    row_place,
    shortened,
    value_at,
)
from contig.data.date_formats import parsed_dates
from contig.data.feature_columns import FeatureColumn, Kind, raw_features
from contig.data.ids import TextIds
from contig.data.numbers import EXACT, check_number_type, parsed_numbers, whole_numbers
from contig.data.time_columns import holds_dates, validate_times
from contig.errors import DataError, NoEventsError

Ints = NDArray[np.int64]
Features = NDArray[np.float32]

BAD_ID = "is not an id; ids are whole numbers or text, and every event needs both."
BAD_TEXT_ID = "is not an id; ids are whole numbers or text without NUL. Fix or remove the event."
EMPTY_ID = "is not an id: it is empty. Fill it in, or remove the event."
UNKNOWN_LABEL = -1
BAD_LABEL = "is not a whole number; labels are class numbers such as 0 and 1, or yes and no."
LABEL_WORDS = {"1": ("yes", "y", "true", "t"), "0": ("no", "n", "false", "f")}
FILL = "fill missing features (0 is usual)."


@dataclass(frozen=True)
class EventColumns:
    """Validated columns of a stream, one value per event; no other code may write to them."""

    src: Ints | TextIds
    dst: Ints | TextIds
    t: Array
    label: Ints | None = None
    features: Features | None = None
    feature_columns: tuple[FeatureColumn, ...] = ()  # of features that are still to be encoded
    dates: bool = False  # whether the times were given as dates


def validate_arrays(
    src: ArrayLike,
    dst: ArrayLike,
    t: ArrayLike,
    label: ArrayLike | None,
    features: ArrayLike | None,
    origin: str,
) -> EventColumns:
    """Validate columns from memory; a column that is kept and that the caller can write to is copied."""
    ids = Column.of(src, "src", origin), Column.of(dst, "dst", origin)
    times = Column.of(owned(_time_array(t)), "t", origin)
    labels = None if label is None else Column.of(owned(np.asarray(label)), "label", origin)
    matrix = None if features is None else feature_matrix(features, origin)
    lengths = {"src": len(ids[0]), "dst": len(ids[1]), "t": len(times)}
    lengths |= {} if labels is None else {"label": len(labels)}
    lengths |= {} if matrix is None else {"edge_features": len(matrix)}
    check_lengths(lengths, origin)
    return replace(validate_columns(*ids, times, labels), features=matrix)


def _time_array(t: ArrayLike) -> Array:
    """Return times as an array; integers stay exact in a list that also holds floats."""
    array = np.asarray(t)
    mixed = array.dtype.kind == "f" and not isinstance(t, np.ndarray) and isinstance(t, Sequence)
    if mixed and len(array) and np.abs(array).max() >= EXACT:
        return np.asarray(t, dtype=object)
    return array


def validate_columns(
    src: Column,
    dst: Column,
    t: Column,
    label: Column | None,
    features: Sequence[Column] = (),
    date_format: str | None = None,
    *,
    raw: bool = False,
    kinds: Mapping[str, Kind] | None = None,
) -> EventColumns:
    """Validate the columns of a table with at least one row.

    ``features`` are columns of numbers, or one column of lists; ``raw`` ones may also hold categories and
    missing values, and are encoded later; ``kinds`` says which they are, by name. ``date_format`` says how
    times are written.
    """
    found = raw_features(features, kinds) if raw and features else None
    times = t if date_format is None else parsed_dates(t, date_format)
    matrix = validate_features(features) if features and found is None else None
    return EventColumns(
        src=validate_ids(src),
        dst=validate_ids(dst),
        t=validate_times(times),
        label=None if label is None else validate_labels(label),
        features=matrix if found is None else found.values,
        feature_columns=() if found is None else found.columns,
        dates=holds_dates(times),
    )


def check_lengths(lengths: Mapping[str, int], origin: str) -> None:
    """Reject columns of different lengths, and empty ones."""
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} {n:,}" for name, n in lengths.items())
        raise DataError(f"{origin}: columns differ in length ({shown}); every event needs one value in each.")
    if not lengths["src"]:
        raise no_events(origin, NoEventsError)


def no_events(origin: object, kind: type[DataError] = DataError) -> DataError:
    """Return the error for an input without events; ``NoEventsError`` where its columns were found."""
    return kind(f"{origin}: there are no events; a stream needs at least one.")


# --- ids ---------------------------------------------------------------------------------------------


def validate_ids(column: Column) -> Ints | TextIds:
    """Validate ids: whole numbers that fit int64, or text that is neither empty nor contains NUL."""
    column.reject_missing("id")
    kind = column.values.type
    if pa.types.is_dictionary(kind):
        column.check_codes()
    if is_text(kind.value_type if pa.types.is_dictionary(kind) else kind):
        return _text_ids(column)
    values = column.plain()
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        raise column.type_error("ids must be integers or text.")
    return whole_numbers(column, values, BAD_ID)


def _text_ids(column: Column) -> TextIds:
    coded = TextIds.of(column.values)
    try:
        labels = replace(column, values=pa.chunked_array([coded.labels])).plain().combine_chunks()
    except DataError:
        column.plain()  # rejects the same value and knows its row
        raise
    bad = pc.or_(pc.equal(labels, ""), pc.match_substring(labels, "\0"))  # numpy drops a final NUL
    bad = pc.fill_null(bad, True).to_numpy(zero_copy_only=False)
    if bad.any() and bad[coded.codes].any():
        row = first_true(bad[coded.codes])
        label = labels[int(coded.codes[row])].as_py() or ""
        raise column.error(row, BAD_TEXT_ID if label else EMPTY_ID, label)
    return TextIds(coded.codes, labels)


# --- labels -------------------------------------------------------------------------------------------


def validate_labels(column: Column) -> Ints:
    """Validate labels: whole numbers of any type, also written as text, or yes and no.

    Those that are not known yet (missing, empty text or -1) become ``UNKNOWN_LABEL``.
    """
    missing = _missing_labels(column)
    if missing.all():
        return np.full(len(missing), UNKNOWN_LABEL)
    values = check_number_type(column)
    if missing.any():
        values = pc.if_else(pa.array(missing), pa.scalar(0).cast(values.type), values)
    whole = replace(column, values=values)
    labels = whole_numbers(whole, parsed_numbers(_without_words(whole), BAD_LABEL), BAD_LABEL)
    return np.where(missing, UNKNOWN_LABEL, labels) if missing.any() else labels


def _missing_labels(column: Column) -> NDArray[np.bool_]:
    values = column.plain()
    missing = pc.is_null(values, nan_is_null=True)
    if is_text(values.type):
        missing = pc.or_kleene(missing, pc.equal(pc.utf8_trim_whitespace(values), ""))
    flags: NDArray[np.bool_] = missing.to_numpy()
    return flags


def _without_words(column: Column) -> Column:
    """Return labels with numbers for yes and no."""
    values = column.plain()
    if not is_text(values.type):
        return column
    words = pc.utf8_lower(pc.utf8_trim_whitespace(values))
    for number, meaning in LABEL_WORDS.items():
        known = pc.is_in(words, pa.array(meaning, words.type))
        values = pc.if_else(known, pa.scalar(number, values.type), values)
    return replace(column, values=values)


def validate_new_labels(column: Column) -> Ints | None:
    """Validate the labels of new events, which are not negative; None if no label is known."""
    labels = validate_labels(column)
    if (labels == UNKNOWN_LABEL).all():
        return None
    negative = labels < UNKNOWN_LABEL
    if negative.any():
        row = first_true(negative)
        raise column.error(row, "is negative; labels are class numbers such as 0 and 1.", int(labels[row]))
    return labels


# --- features ----------------------------------------------------------------------------------------


def feature_matrix(values: ArrayLike, origin: str, name: str = "edge_features") -> Features:
    """Validate features from memory: finite float32, ``[rows, width]``."""
    try:
        given = np.asarray(values)
        with np.errstate(over="ignore"):  # what is beyond float32 becomes inf and is rejected below
            matrix = given.astype(np.float32, copy=False)
    except (TypeError, ValueError) as error:
        raise DataError(f"{origin}: {name} must be a table of numbers ({error}).") from None
    if matrix.ndim != 2:
        raise DataError(
            f"{origin}: {name} has shape {matrix.shape}; expected one row per item: [rows, width]."
        )
    if bad := _first_bad(matrix):
        row, feature = bad
        raise DataError(
            f"{row_place(origin)(row)}, {name}: feature {feature}, {given[row, feature]}, {_NOT_FINITE}"
        )
    return owned(matrix)


def validate_features(columns: Sequence[Column]) -> Features | None:
    """Validate features: finite in float32, equally many for every event; None if there are none."""
    listed = len(columns) == 1 and is_list(columns[0].values.type)
    matrix = _list_matrix(columns[0]) if listed else _scalar_matrix(columns)
    if bad := _first_bad(matrix):
        row, feature = bad
        raise _feature_error(columns[0 if listed else feature], row, feature if listed else None)
    return matrix if matrix.shape[1] else None


_NOT_FINITE = f"is not a finite float32; scale very large features and {FILL}"


def _first_bad(matrix: Features) -> tuple[int, int] | None:
    """Return the row and the column of the first value that is not finite."""
    bad = ~np.isfinite(matrix)
    if not bad.any():
        return None
    row, column = np.argwhere(bad)[0]
    return int(row), int(column)


def _feature_error(column: Column, row: int, item: int | None) -> DataError:
    """Describe a bad feature; ``item`` is its position in a list, None if the column has one per row."""
    value = value_at(column.values, row)
    which = "the feature" if item is None else f"feature {item}"
    if value is None:
        return column.error(row, f"{which} is missing; {FILL}")
    return column.error(row, f"{which}{'' if item is None else ' of'} {shortened(str(value))} {_NOT_FINITE}")


def _scalar_matrix(columns: Sequence[Column]) -> Features:
    numbers = [parsed_numbers(column, "is not a number; features must be numbers.") for column in columns]
    table = pa.table(numbers, names=[str(i) for i in range(len(numbers))])
    matrix = np.empty((table.num_rows, len(columns)), dtype=np.float32)
    row = 0
    with np.errstate(over="ignore"):  # what is beyond float32 becomes inf and is rejected
        for batch in table.to_batches():  # all columns of few rows at a time stay in the cache
            for i, values in enumerate(batch.columns):
                matrix[row : row + len(values), i] = values.to_numpy(zero_copy_only=False)
            row += batch.num_rows
    return matrix


def _list_matrix(column: Column) -> Features:
    column.reject_missing("feature list")
    widths = pc.list_value_length(column.values).to_numpy()
    width = int(widths[0])
    uneven = widths != width
    if uneven.any():
        row = first_true(uneven)
        raise column.error(
            row, f"has {widths[row]} features, but the first event has {width}; all need the same number."
        )
    if not width:
        return np.empty((len(widths), 0), dtype=np.float32)
    flat = replace(
        column, values=pc.list_flatten(column.values), place=lambda item: column.place(item // width)
    )
    return _scalar_matrix([flat]).reshape(-1, width)
