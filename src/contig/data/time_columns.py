"""Times from numbers, dates or text: exact, or rejected with their place."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contig.data.columns import Array, Column, first_true, is_text, value_at
from contig.data.date_formats import fitting_formats
from contig.data.numbers import EXACT, is_number, whole_numbers

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EXACT_DIGITS = 15  # different decimal numbers of up to 15 digits stay different in float64
NOT_A_TIME = "is not a time; use a finite number or a date in ISO 8601 such as 2024-05-01T12:00:00Z"
BAD_TIME = f"{NOT_A_TIME}, or say how dates are written: date_format='%m/%d/%Y %H:%M' (--date-format)."
TOO_FINE = "is finer than a microsecond, the limit for dates; round it, or store integer nanoseconds."
TOO_LONG = "has more digits than float64 holds; store times as integers of a smaller unit."


Problem = Callable[[pa.ChunkedArray], str]  # returns what is wrong with written dates


def validate_times(column: Column, *, date_format_can_be_set: bool = True) -> Array:
    """Return times: finite numbers (int64 or float64), or dates, which become Unix seconds.

    A time that this would change is rejected: whole numbers stay exact, and different times stay different.
    """
    column.reject_missing("time")
    written = pa.types.is_decimal(column.values.type) and column.values.type.scale != 0
    values = column.values.cast(pa.large_string()) if written else column.plain()
    text = pc.utf8_trim_whitespace(values) if is_text(values.type) else None
    if text is not None:
        values = _parse_times(column, text, _date_problem if date_format_can_be_set else _not_iso)
    kind = values.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _unix_seconds(column, values)
    if pa.types.is_integer(kind):
        return whole_numbers(column, values, BAD_TIME)
    if not pa.types.is_floating(kind):
        raise column.type_error("times must be numbers, dates, or dates written in ISO 8601.")
    times: NDArray[np.float64] = values.to_numpy().astype(np.float64, copy=False)
    bad = ~np.isfinite(times)
    if bad.any():
        raise column.error(first_true(bad), BAD_TIME, float(times[first_true(bad)]))
    if text is not None:
        _reject_rounded(column, text, times)
    return times


def holds_dates(column: Column) -> bool:
    """Return whether valid times are dates, as text or of a type for dates, rather than numbers."""
    values = replace(column, values=column.values.slice(0, 1)).plain()  # all are as the first is
    if is_text(values.type):
        return not is_number(values[0].as_py())
    return bool(pa.types.is_timestamp(values.type) or pa.types.is_date(values.type))


def _unix_seconds(column: Column, dates: pa.ChunkedArray) -> Array:
    """Convert dates to seconds: int64 if all are whole, else float64, exact to the microsecond."""
    kind = dates.type
    problem = TOO_FINE if str(kind).startswith("timestamp[ns") else "is too far from 1970."
    stamps = column.cast(dates, pa.timestamp("us", getattr(kind, "tz", None)), problem)
    microseconds: NDArray[np.int64] = stamps.cast(pa.int64()).to_numpy()
    whole, rest = np.divmod(microseconds, 1_000_000)
    if not rest.any():
        return whole
    seconds: NDArray[np.float64] = microseconds / 1e6
    with np.errstate(invalid="ignore"):  # the last microseconds of int64 round up to more than it holds
        changed = np.rint(seconds * 1e6).astype(np.int64) != microseconds
    if changed.any():
        row = first_true(changed)
        raise column.error(row, f"is too far from 1970 for its fraction; {TOO_LONG}", value_at(dates, row))
    return seconds


def _parse_times(column: Column, text: pa.ChunkedArray, problem: Problem) -> pa.ChunkedArray:
    """Parse written times: all numbers or all dates, as the first one is."""
    if is_number(text[0].as_py()):
        return _parse_numbers(column, text)
    for unit in ("us", "ns"):
        for zone in (None, "UTC"):
            try:
                return text.cast(pa.timestamp(unit, zone))
            except pa.ArrowInvalid:
                continue
    return _parse_mixed_dates(column, text, problem)


def _parse_numbers(column: Column, text: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return int64 if all are written as integers, or are whole and too large for float64, else float64."""
    try:
        return text.cast(pa.int64())
    except pa.ArrowInvalid:
        numbers = column.cast(text, pa.float64(), BAD_TIME)
    if pc.any(pc.greater_equal(pc.abs(numbers), float(EXACT))).as_py():
        with suppress(pa.ArrowInvalid):
            return pc.replace_substring_regex(text, r"\.0*$", "").cast(pa.int64())
    return numbers


def _reject_rounded(column: Column, text: pa.ChunkedArray, times: NDArray[np.float64]) -> None:
    """Reject written times that float64 changes: large whole ones, and different ones that become equal."""
    if not pc.any(pc.greater(pc.binary_length(text), EXACT_DIGITS)).as_py():
        return
    for row in np.flatnonzero(np.abs(times) >= EXACT).tolist():
        value, time = text[row].as_py(), float(times[row])
        if Decimal(value) not in (
            Decimal(time),
            Decimal(repr(time)),
        ):  # repr: the digits that name this float
            raise column.error(row, TOO_LONG, value)
    spelled = pc.replace_substring_regex(text, r"(\.\d*?)0*$", r"\1")
    if pc.count_distinct(spelled).as_py() == len(np.unique(times)):
        return
    seen: dict[float, Decimal] = {}
    for row, (value, time) in enumerate(zip(text.to_pylist(), times.tolist(), strict=True)):
        if seen.setdefault(time, exact := Decimal(value)) != exact:
            raise column.error(row, f"becomes equal to another time: it {TOO_LONG}", value)


def _parse_mixed_dates(column: Column, text: pa.ChunkedArray, problem: Problem) -> pa.ChunkedArray:
    """Parse dates with and without time zones in one column, slowly."""
    microseconds = np.empty(len(text), dtype=np.int64)
    for row, value in enumerate(text.to_pylist()):
        if re.search(r"[.,]\d{6}0*[1-9]", value):  # what datetime would cut off
            raise column.error(row, TOO_FINE, value)
        try:
            date = datetime.fromisoformat(value)
            date = date if date.tzinfo else date.replace(tzinfo=UTC)
            microseconds[row] = (date - EPOCH) // timedelta(microseconds=1)
        except (ValueError, OverflowError):
            raise column.error(row, problem(text), value) from None
    return pa.chunked_array([pa.array(microseconds).cast(pa.timestamp("us", "UTC"))])


def _not_iso(text: pa.ChunkedArray) -> str:
    return f"{NOT_A_TIME}."


def _date_problem(text: pa.ChunkedArray) -> str:
    """Return what is wrong with written dates, with the format that all of them fit, if there is one."""
    match fitting_formats(text):
        case [format]:
            return f"is not a date in ISO 8601; set date_format={format!r} (--date-format {format!r})."
        case [short, long] if long == short.replace("%b", "%B"):
            return (
                f"is not a date in ISO 8601; set date_format={short!r} if months are abbreviated (Jun), or "
                f"{long!r} if not (--date-format)."
            )
        case [day_first, month_first]:
            return (
                "is not a date in ISO 8601, and day and month cannot be told apart; set "
                f"date_format={day_first!r} or {month_first!r} (--date-format)."
            )
    return BAD_TIME
