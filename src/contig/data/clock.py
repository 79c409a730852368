"""The times of a stream: their unit, and conversion from and to dates and durations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from contig.data.columns import Array
from contig.errors import DataError

Number = int | float
# A datetime is a date, as pandas' Timestamp is a datetime.
TimeLike = int | float | str | date | np.datetime64 | np.integer[Any] | np.floating[Any]
Clock = Literal["seconds", "milliseconds", "microseconds", "nanoseconds"]
TICKS: dict[Clock, float] = {"seconds": 1.0, "milliseconds": 1e3, "microseconds": 1e6, "nanoseconds": 1e9}
COARSE = {"minutes": 60.0, "hours": 3_600.0, "days": 86_400.0}  # in seconds

LATEST = 2**62  # as int64, differences between times below it do not overflow
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EARLIEST_DATE, LATEST_DATE = 5e8, 1e11  # Unix seconds between which numbers are taken as dates: 1985 to 5138
_NANO = 1_000_000_000


def out_of_range(t: Array) -> NDArray[np.bool_]:
    """Return which times could overflow when they are subtracted; also those that are not numbers."""
    return ~((t > -LATEST) & (t < LATEST))  # the absolute value of the smallest integer is negative


@dataclass(frozen=True)
class TimeSpan:
    """The time from the first event to the last, in the stream's own unit.

    ``unix`` is the unit if the times look like Unix times; otherwise it is None, and the times are
    taken as seconds. ``dates`` is true if they were given as dates, which are Unix seconds in any year.
    """

    first: Number
    last: Number
    span: Number
    type: str
    unix: Clock | None
    dates: bool = False

    @classmethod
    def of(cls, t: Array, *, dates: bool = False) -> TimeSpan:
        """Return the span of a stream's times, which are ascending and at least one."""
        # As Python numbers, because the difference of two int64 need not be one.
        first, last = t[0].item(), t[-1].item()
        unix = "seconds" if dates else _clock(first, last)
        return cls(first, last, last - first, t.dtype.name, unix, dates)

    def until(self, last: Number) -> TimeSpan:
        """Return the span up to a later time, in the same unit."""
        return replace(self, last=last, span=last - self.first)

    @property
    def per_second(self) -> float:
        return TICKS[self.unix or "seconds"]

    def __str__(self) -> str:
        """Return ``2004-04-15 to 2004-10-26``, or the numbers if they are not dates."""
        return f"{self.describe(self.first)} to {self.describe(self.last)}"

    def exact(self) -> str:
        """Return the same as ``str``, with dates to the second."""
        first, last = self._date(self.first), self._date(self.last)
        if first is None or last is None:
            return str(self)
        return f"{first:%Y-%m-%dT%H:%M:%SZ} to {last:%Y-%m-%dT%H:%M:%SZ}"

    def describe(self, t: Number) -> str:
        """Return a time as a date, or as a number if it is not one."""
        if (date := self._date(t)) is None:
            return f"{t:,.10g}" if isinstance(t, float) else f"{t:,}"
        return f"{date:%Y-%m-%d}"

    def iso(self, t: Number) -> str | None:
        """Return a time as an ISO date such as ``2024-05-01T12:00:00Z``, or None if it is not a date."""
        date = self._date(t)
        return None if date is None else date.isoformat().replace("+00:00", "Z")

    def _date(self, t: Number) -> datetime | None:
        if self.unix is None:
            return None
        try:
            return EPOCH + timedelta(seconds=t / self.per_second)
        except (OverflowError, ValueError):  # not in the years 1 to 9999, as in a finer unit; not a number
            return None

    def written(self, t: Number) -> str:
        """Return a time as ``iso`` does, or the number if it does not look like a date in this unit.

        Where the times were given as dates, an unlikely one is shown as both.
        """
        likely, date = _clock(t, t) == self.unix, self.iso(t)
        if date is None or not (likely or self.dates):
            return str(t)
        return date if likely else f"{date} ({t})"


def _clock(first: Number, last: Number) -> Clock | None:
    """Return the unit in which times are dates; the ranges of the units do not overlap."""
    for name, ticks in TICKS.items():
        if first / ticks > EARLIEST_DATE and last / ticks < LATEST_DATE:
            return name
    return None


class WrongUnit(NamedTuple):
    """A time that does not look like one in the unit of the known ones: its row, and the problem."""

    row: int
    problem: str


def find_wrong_unit(t: Array, known: TimeSpan, *, dates: bool = False) -> WrongUnit | None:
    """Find a new time in another unit than the known ones, such as milliseconds where they are seconds.

    Once such an event is known, every correct one would be older. A long silence is no evidence: a time must
    also be a date in another unit, or fit when it is divided by 1,000, a million or a billion. Where new and
    known times were given as ``dates``, there is no unit to mistake.
    """
    if dates and known.dates:
        return None
    times = t.astype(np.float64)
    return _other_unit(times, known) if known.unix else _other_scale(times, known)


def check_unit(times: Array, known: TimeSpan, name: Callable[[int], str]) -> None:
    """Raise if the known times are dates and one to query is a date in another unit; ``name`` names its row.

    Where times are not dates, any later one may be meant.
    """
    if known.unix is not None and (wrong := find_wrong_unit(times, known)) is not None:
        raise DataError(f"{name(wrong.row)}={times[wrong.row].item()} {wrong.problem}")


def _other_unit(t: NDArray[np.float64], known: TimeSpan) -> WrongUnit | None:
    """Find a date in another unit than that of known dates."""
    far = (t - known.last > 10 * known.span) | (known.first - t > known.span)
    for unit, ticks in TICKS.items():
        found = far & _dates(t, ticks)
        if unit == known.unix or not found.any():
            continue
        ratio = ticks / known.per_second
        cure = f"Divide by {ratio:,.0f}" if ratio > 1 else f"Multiply by {1 / ratio:,.0f}"
        problem = f"looks like {unit} since 1970, but the times of the run are {known.unix}. {cure}."
        return WrongUnit(int(np.argmax(found)), problem)
    for name, seconds in COARSE.items():
        ticks = seconds * known.per_second
        decade = 3_653 * 86_400 * known.per_second
        fits = (known.first - t * ticks <= decade) & (t * ticks - known.last <= decade)
        fits &= known.first - t > decade
        if fits.any():
            kind = "dates" if known.dates else known.unix
            problem = f"looks like {name} since 1970, but the times of the run are {kind}."
            cure = f"Multiply by {ticks:,.0f}" + (" to get seconds, or write dates." if known.dates else ".")
            return WrongUnit(int(np.argmax(fits)), f"{problem} {cure}")
    return None


def _other_scale(t: NDArray[np.float64], known: TimeSpan) -> WrongUnit | None:
    """Find a time far beyond known ones that are not dates; short spans may count anything."""
    far = (t - known.last > 100 * known.span) & (known.span >= 10_000)
    for ratio in (1e3, 1e6, 1e9):
        found = far & (t / ratio >= known.last - known.span / 2) & (t / ratio <= known.last + known.span)
        if found.any():
            cure = f"Is it in another unit? Divided by {ratio:,.0f} it would fit."
            return WrongUnit(int(np.argmax(found)), f"is far beyond the times of the run, {known}. {cure}")
    for unit, ticks in TICKS.items():
        found = far & _dates(t, ticks)
        if found.any():
            problem = f"looks like {unit} since 1970, but the times of the run, {known}, are not dates."
            return WrongUnit(int(np.argmax(found)), f"{problem} Use the same origin and unit.")
    return None


def _dates(t: NDArray[np.float64], ticks: float) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (t / ticks > EARLIEST_DATE) & (t / ticks < LATEST_DATE)
    return found


def in_unit_of(known: TimeSpan, t: Array, *, dates: bool) -> Array:
    """Return times in the unit of known ones, if these are Unix times; ``dates`` are read as seconds."""
    if not dates or known.unix is None or known.per_second == 1:
        return t
    ticks: Array = np.rint(t * int(known.per_second))
    return ticks


def parse_time(given: TimeLike, span: TimeSpan, name: str, date_format: str | None = None) -> Number:
    """Convert a number or a date to the unit of a stream with the times of ``span``.

    Dates are text in ``date_format`` or ISO 8601, ``datetime``, ``date`` or numpy's; without a time zone they
    count as UTC.
    Error messages call the value ``name``, for instance ``--at noon``.
    """
    if isinstance(given, str):
        given = _parse(given, name, date_format)
    if isinstance(given, np.integer | np.floating):
        given = given.item()
    if isinstance(given, int | float) and not isinstance(given, bool):
        return given
    return _in_ticks(_nanoseconds(given, name), span, name)


def _parse(text: str, name: str, date_format: str | None) -> Number | datetime:
    kinds: list[Callable[[str], Number | datetime]] = [int, float, datetime.fromisoformat]
    if date_format is not None:  # first, since dates may be written in digits alone
        kinds.insert(0, lambda date: datetime.strptime(date.strip(), date_format))
    for kind in kinds:
        try:
            return kind(text)
        except ValueError:
            continue
    raise _not_a_time(name, date_format)


def _nanoseconds(given: Any, name: str) -> int:
    """Return a date as nanoseconds since 1970."""
    if isinstance(given, np.datetime64) and not np.isnat(given):
        whole = given.astype("datetime64[s]")
        rest = (given - whole).astype("timedelta64[ns]")
        return int(whole.astype(np.int64)) * _NANO + int(rest.astype(np.int64))
    if isinstance(given, date) and given == given:  # pandas' missing time equals nothing
        clock = given if isinstance(given, datetime) else datetime(given.year, given.month, given.day)
        aware = clock if clock.tzinfo else clock.replace(tzinfo=UTC)
        return (aware - EPOCH) // timedelta(microseconds=1) * 1000
    raise _not_a_time(name)


def _not_a_time(name: str, date_format: str | None = None) -> DataError:
    as_in_file = (
        "" if date_format is None else f" or, as in the events, {datetime(2024, 5, 1, 12):{date_format}}"
    )
    return DataError(
        f"{name}: not a time; use a number as in the events, or a date such as 2024-05-01T12:00{as_in_file} "
        "(UTC unless it has a time zone)."
    )


def _in_ticks(nanoseconds: int, time: TimeSpan, name: str) -> Number:
    """Convert to the stream's unit; a date is rejected if the stream's times are not dates."""
    whole, rest = divmod(nanoseconds * int(time.per_second), _NANO)
    ticks = whole + rest / _NANO if rest else whole
    if time.unix is None and not time.first - time.span <= ticks <= time.last + time.span:
        raise DataError(
            f"{name}: the times of this stream run from {time.first:,} to {time.last:,} and do "
            "not look like dates; use a number."
        )
    return ticks


def duration(seconds: float) -> str:
    """Return a duration in the largest unit that fits, to three digits: ``54 s``, ``2.6 hours``."""
    units = ((31_557_600.0, "year"), (86_400.0, "day"), (3_600.0, "hour"), (60.0, "min"), (1.0, "s"))
    size, unit = next((u for u in units if seconds >= u[0]), units[-1])
    number = f"{seconds / size:,.0f}" if seconds >= 100 * size else f"{seconds / size:.3g}"
    return f"{number} {unit}{'s' if size > 60 and number != '1' else ''}"
