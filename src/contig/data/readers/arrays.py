"""Arrow columns to numpy, each checked for what its part in the stream asks of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contig.data.readers.columns import Column, first, value_at
from contig.data.readers.sources import Roles, Source
from contig.data.readers.tables import is_list, is_text
from contig.data.readers.words import clipped, is_number
from contig.data.validation import Array, unix_seconds
from contig.errors import DataError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME = "is not a time; give a finite number, or a date in ISO 8601 such as 2024-05-01T12:00:00Z."
_FILL = "fill missing features (0 is usual)."


@dataclass(frozen=True)
class Arrays:
    """The columns of a stream. With ``node_labels``, src and dst are positions in that sorted array."""

    src: NDArray[np.int64]
    dst: NDArray[np.int64]
    node_labels: Array | None
    t: Array
    label: NDArray[np.int64] | None
    features: NDArray[np.float32] | None


def read_arrays(source: Source, roles: Roles, table: pa.Table) -> Arrays:
    """The stream's columns from ``table``, which holds those at ``roles.positions``."""
    column = {i: Column(source, i, table.column(n)) for n, i in enumerate(roles.positions)}
    src, dst, node_labels = _ids(column[roles.src], column[roles.dst])
    return Arrays(
        src,
        dst,
        node_labels,
        _times(column[roles.t]),
        None if roles.label is None else _labels(column[roles.label]),
        _features([column[i] for i in roles.features]) if roles.features else None,
    )


# --- ids ---------------------------------------------------------------------------------------------


def _ids(src: Column, dst: Column) -> tuple[NDArray[np.int64], NDArray[np.int64], Array | None]:
    """Integer ids as they are; text ids as ranks among the sorted labels, which come third."""
    s, d = _id_values(src), _id_values(dst)
    if isinstance(s, np.ndarray) and isinstance(d, np.ndarray):
        return s, d, None
    coded = [
        _coded(pa.chunked_array([pa.array(x).cast(pa.string())])) if isinstance(x, np.ndarray) else x
        for x in (s, d)
    ]
    both = pa.concat_arrays([labels.cast(pa.large_string()) for _, labels in coded]).dictionary_encode()
    order = pc.sort_indices(both.dictionary)  # by bytes, which in UTF-8 is by code point
    rank = np.empty(len(order), dtype=np.int64)
    rank[order.to_numpy()] = np.arange(len(order))
    ranks = rank[both.indices.to_numpy()]
    (src_codes, src_labels), (dst_codes, _) = coded
    labels = np.asarray(both.dictionary.take(order).to_pylist(), dtype=np.str_)
    return ranks[: len(src_labels)][src_codes], ranks[len(src_labels) :][dst_codes], labels


def _id_values(column: Column) -> NDArray[np.int64] | tuple[Array, pa.Array]:
    """Ids as int64, or, where they are text, as codes and the labels these stand for."""
    column.refuse_nulls("id")
    kind = column.values.type
    if is_text(kind.value_type if pa.types.is_dictionary(kind) else kind):
        return _text_ids(column)
    values = column.plain()
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        raise column.wrong_type("ids must be integers or text.")
    return _whole(column, values, "is no id; ids are whole numbers or text, and every event needs both.")


def _text_ids(column: Column) -> tuple[Array, pa.Array]:
    codes, dictionary = _coded(column.values)
    try:
        labels = replace(column, values=pa.chunked_array([dictionary])).plain().combine_chunks()
    except DataError:
        column.plain()  # refuses the same value and knows its row
        raise
    unfit = pc.or_(pc.equal(labels, ""), pc.match_substring(labels, "\0"))  # numpy drops a final NUL
    unfit = pc.fill_null(unfit, True).to_numpy(zero_copy_only=False)
    if unfit.any() and unfit[codes].any():
        row = first(unfit[codes])
        problem = "is no id; give the event an id (a whole number or text) or remove it."
        raise column.wrong(row, problem, labels[int(codes[row])].as_py() or "")
    return codes, labels


def _coded(values: pa.ChunkedArray) -> tuple[Array, pa.Array]:
    """A code per row and what the codes stand for, without a Python object per row."""
    if pa.types.is_dictionary(values.type):
        values = values.unify_dictionaries()
    else:
        values = values.dictionary_encode()  # all chunks share the dictionary
    return np.concatenate([chunk.indices.to_numpy() for chunk in values.chunks]), values.chunk(0).dictionary


# --- times -------------------------------------------------------------------------------------------


def _times(column: Column) -> Array:
    column.refuse_nulls("time")
    values = column.plain()
    if is_text(values.type):
        values = _parsed_times(column, pc.utf8_trim_whitespace(values))
    kind = values.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        moments = column.cast(values, pa.timestamp("us", getattr(kind, "tz", None)), "is too far from 1970.")
        return unix_seconds(moments.cast(pa.int64()).to_numpy().view("datetime64[us]"))
    if pa.types.is_integer(kind):
        return _whole(column, values, _TIME)
    if not pa.types.is_floating(kind):
        raise column.wrong_type("times must be numbers, dates, or dates written in ISO 8601.")
    times: NDArray[np.float64] = values.to_numpy().astype(np.float64, copy=False)
    bad = ~np.isfinite(times)
    if bad.any():
        raise column.wrong(first(bad), _TIME, float(times[first(bad)]))
    return times


def _parsed_times(column: Column, text: pa.ChunkedArray) -> pa.ChunkedArray:
    """Written times: all numbers or all dates, as the first one is."""
    numeric = is_number(text[0].as_py())
    kinds = (pa.int64(),) if numeric else (pa.timestamp("us"), pa.timestamp("us", "UTC"))
    for kind in kinds:
        try:
            return text.cast(kind)
        except pa.ArrowInvalid:
            continue
    return column.cast(text, pa.float64(), _TIME) if numeric else _mixed_dates(column, text)


def _mixed_dates(column: Column, text: pa.ChunkedArray) -> pa.ChunkedArray:
    """Dates with and without time zones in one column, slowly."""
    micros = np.empty(len(text), dtype=np.int64)
    for row, value in enumerate(text.to_pylist()):
        try:
            moment = datetime.fromisoformat(value)
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            micros[row] = (moment - EPOCH) // timedelta(microseconds=1)
        except (ValueError, OverflowError):
            raise column.wrong(row, _TIME, value) from None
    return pa.chunked_array([pa.array(micros).cast(pa.timestamp("us", "UTC"))])


# --- numbers -----------------------------------------------------------------------------------------


def _numbers(column: Column, problem: str) -> pa.ChunkedArray:
    """The values as numbers or booleans; written numbers count."""
    values = column.plain()
    if is_text(values.type):
        return column.cast(pc.utf8_trim_whitespace(values), pa.float64(), problem)
    types = pa.types
    if not (types.is_integer(values.type) or types.is_floating(values.type) or types.is_boolean(values.type)):
        raise column.wrong_type("labels and features must be numbers.")
    return values


def _whole(column: Column, values: pa.ChunkedArray, problem: str) -> NDArray[np.int64]:
    """Numbers as int64; the first that is not whole is refused with ``problem``."""
    if pa.types.is_integer(values.type):
        too_large = "is larger than a signed 64-bit integer holds; store a smaller number, or ids as text."
        integers: NDArray[np.int64] = column.cast(values, pa.int64(), too_large).to_numpy()
        return integers
    numbers: NDArray[np.float64] = values.to_numpy().astype(np.float64)
    bad = ~np.isfinite(numbers) | (numbers != np.floor(numbers)) | (np.abs(numbers) >= 2**53)
    if bad.any():
        raise column.wrong(first(bad), problem, float(numbers[first(bad)]))
    return numbers.astype(np.int64)


def _labels(column: Column) -> NDArray[np.int64]:
    column.refuse_nulls("label")
    problem = "is not a whole number; labels are class numbers such as 0 and 1."
    return _whole(column, _numbers(column, problem), problem)


# --- features ----------------------------------------------------------------------------------------


def _features(columns: Sequence[Column]) -> NDArray[np.float32] | None:
    listed = len(columns) == 1 and is_list(columns[0].values.type)
    matrix = _list_matrix(columns[0]) if listed else _scalar_matrix(columns)
    bad = ~np.isfinite(matrix)
    if bad.any():
        row, feature = (int(x) for x in np.argwhere(bad)[0])
        if listed:
            raise _unfit_feature(columns[0], row, f"feature {feature}", " of")
        raise _unfit_feature(columns[feature], row, "the feature", "")
    matrix.flags.writeable = False  # nobody else holds it, so the stream need not copy it
    return matrix if matrix.shape[1] else None


def _unfit_feature(column: Column, row: int, which: str, of: str) -> DataError:
    value = value_at(column.values, row)
    if value is None:
        return column.wrong(row, f"{which} is missing; {_FILL}")
    told = f"{which}{of} {clipped(str(value))}"
    return column.wrong(row, f"{told} is not a finite float32; scale very large features and {_FILL}")


def _scalar_matrix(columns: Sequence[Column]) -> NDArray[np.float32]:
    numbers = [_numbers(column, "is not a number; features must be numbers.") for column in columns]
    table = pa.table(numbers, names=[str(i) for i in range(len(numbers))])
    matrix = np.empty((table.num_rows, len(columns)), dtype=np.float32)
    row = 0
    with np.errstate(over="ignore"):  # beyond float32 becomes inf and is refused by name
        for batch in table.to_batches():  # all columns of few rows at a time stay in the cache
            for i, values in enumerate(batch.columns):
                matrix[row : row + len(values), i] = values.to_numpy(zero_copy_only=False)
            row += batch.num_rows
    return matrix


def _list_matrix(column: Column) -> NDArray[np.float32]:
    column.refuse_nulls("feature list")
    widths = pc.list_value_length(column.values).to_numpy()
    width = int(widths[0])
    uneven = widths != width
    if uneven.any():
        row = first(uneven)
        raise column.wrong(
            row, f"has {widths[row]} features where the first event has {width}; give every event as many."
        )
    if not width:
        return np.empty((len(widths), 0), dtype=np.float32)
    place = column.source.place
    source = replace(column.source, place=lambda item: place(item // width))
    flat = Column(source, column.position, pc.list_flatten(column.values))
    return _scalar_matrix([flat]).reshape(-1, width)
