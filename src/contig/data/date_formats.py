"""Dates that are written in a format of the user's, such as ``%m/%d/%Y %H:%M``; and guessing the format."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from contig.data.columns import ARROW_ERRORS, Column, is_text
from contig.errors import ConfigError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COMPARED = 20_000  # distinct dates of a column by which its format is guessed
DAYS = (
    *("%d.%m.%Y", "%m.%d.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d"),
    *("%d.%m.%y", "%m.%d.%y", "%d/%m/%y", "%m/%d/%y", "%d-%m-%y", "%m-%d-%y"),
    *("%d %b %Y", "%d-%b-%Y", "%b %d %Y", "%b %d, %Y", "%d %B %Y", "%B %d %Y", "%B %d, %Y"),
)
HOURS = (
    *(
        "",
        " %H:%M",
        " %H:%M:%S",
        " %H:%M:%S.%f",
        "T%H:%M",
        "T%H:%M:%S",
        "T%H:%M:%S.%f",
        ", %H:%M",
        ", %H:%M:%S",
    ),
    *(" %I:%M %p", " %I:%M:%S %p", " %I:%M%p"),
)
SIMPLE = re.compile(r"(?:[^%A-Za-z]|%[YmdHMS]|T)+")  # what Arrow and Python read alike


def parsed_dates(column: Column, format: str) -> Column:
    """Return a column of text with its dates parsed; without a time zone they count as UTC."""
    check_date_format(format)
    column.reject_missing("time")
    values = column.plain()
    if not is_text(values.type):
        raise column.type_error("date_format is for dates that are written as text; omit it.")
    text = pc.utf8_trim_whitespace(values)
    return replace(column, values=_fast(text, format) or _exact(column, text, format))


def check_date_format(format: str) -> None:
    """Raise ``ConfigError`` for a format that no date can have."""
    try:
        datetime.strptime(f"{datetime(2024, 5, 1, tzinfo=UTC):{format}}", format)
    except (ValueError, re.error) as error:
        raise ConfigError(
            f"date_format={format!r} is not a valid date format ({error}); use one such as '%m/%d/%Y %H:%M'."
        ) from None
    if not re.search("%[YycGsxD]", format):
        raise ConfigError(f"date_format={format!r} has no year; write one such as '%m/%d/%Y %H:%M'.")


def _fast(text: pa.ChunkedArray, format: str) -> pa.ChunkedArray | None:
    """Parse with Arrow where it reads the format as Python does; None if any date may differ.

    Arrow takes 30 February for 1 March, so that the dates must be as written when they are formatted again.
    """
    if not SIMPLE.fullmatch(format):
        return None
    with suppress(*ARROW_ERRORS):
        dates = pc.strptime(text, format=format, unit="s")
        same = pc.equal(_unpadded(pc.strftime(dates, format=format)), _unpadded(text))
        if pc.all(pc.and_(same, pc.greater_equal(pc.year(dates), 1000))).as_py():
            return dates
    return None


def _unpadded(text: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.replace_substring_regex(text, r"\b0+(\d)", r"\1")


def _exact(column: Column, text: pa.ChunkedArray, format: str) -> pa.ChunkedArray:
    """Parse each distinct date with Python, and name the first that does not fit."""
    coded = text.combine_chunks().dictionary_encode()
    read = _reader(format)
    found = []
    for value in coded.dictionary.to_pylist():
        try:
            found.append(read(value))
        except (ValueError, OverflowError):
            row = pc.index(text, value).as_py()
            raise column.error(
                row, f"does not match date_format={format!r}; correct the value or the format.", value
            ) from None
    dates = pa.array(found, pa.int64()).cast(pa.timestamp("us", "UTC"))
    return pa.chunked_array([dates.take(coded.indices)])


def _reader(format: str) -> Callable[[str], int]:
    def microseconds(text: str) -> int:
        date = datetime.strptime(text, format)
        return ((date if date.tzinfo else date.replace(tzinfo=UTC)) - EPOCH) // timedelta(microseconds=1)

    return microseconds


def fitting_formats(text: pa.ChunkedArray) -> list[str]:
    """Return the usual formats that the dates of a column fit.

    There are two if either number may be the month, or if all dates are in May, which may be an abbreviation.
    Only the first ``COMPARED`` distinct dates are compared.
    """
    dates = pc.unique(text).slice(0, COMPARED).to_pylist()
    formats = (day + hour for day in DAYS for hour in HOURS)
    return [format for format in formats if all(_fits(date, format) for date in dates)]


def _fits(date: str, format: str) -> bool:
    try:
        datetime.strptime(date, format)
    except ValueError:
        return False
    return True
