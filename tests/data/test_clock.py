from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pandas as pd
import pytest

from contig.data.clock import TimeSpan, duration, find_wrong_unit, parse_time
from contig.errors import DataError

MAY = 1_714_521_600  # midnight before 1 May 2024, UTC
TICKS = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}


@pytest.mark.parametrize(
    ("times", "kind", "clock"),
    [
        ([0, 2_678_373], "int64", None),
        ([1_289_241_911, 1_453_684_323], "int64", "seconds"),
        ([1.5e9, 1.5e9 + 0.5], "float64", "seconds"),
        ([5e8, 6e8], "float64", None),
        ([1_600_000_000_000, 1_600_000_000_001], "int64", "milliseconds"),
        ([1_600_000_000_000_000, 1_700_000_000_000_000], "int64", "microseconds"),
        ([1_600_000_000_000_000_000, 1_700_000_000_000_000_000], "int64", "nanoseconds"),
        ([-5, 1_600_000_000], "int64", None),
        ([1_600_000_000, 1_600_000_000_000], "int64", None),
    ],
)
def test_the_unit_of_unix_times_is_recognized(times: list[float], kind: str, clock: str | None) -> None:
    found = TimeSpan.of(np.array(times))
    assert (found.first, found.last, found.span) == (times[0], times[1], times[1] - times[0])
    assert (found.type, found.unix) == (kind, clock)
    expected = {None: 1, "seconds": 1, "milliseconds": 1e3, "microseconds": 1e6, "nanoseconds": 1e9}
    assert found.per_second == expected[clock]


def test_a_span_wider_than_int64_is_exact() -> None:
    ends = [-(2**63) + 1, 2**63 - 1]
    assert TimeSpan.of(np.array(ends)).span == 2**64 - 2


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ([MAY, MAY + 86_399, MAY + 86_400], "2024-05-01 to 2024-05-02"),
        ([MAY * 1000 - 1, MAY * 1000], "2024-04-30 to 2024-05-01"),
        ([3, 12_345], "3 to 12,345"),
        ([0.25, 1234.5], "0.25 to 1,234.5"),
    ],
)
def test_a_span_as_text(times: list[float], words: str) -> None:
    assert str(TimeSpan.of(np.array(times))) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (0.25, "0.25 s"),
        (54.0, "54 s"),
        (60, "1 min"),
        (156, "2.6 min"),
        (3600, "1 hour"),
        (6843.4, "1.9 hours"),
        (86_400, "1 day"),
        (2_678_373, "31 days"),
        (16_736_181, "194 days"),
        (113_740_399, "3.6 years"),
        (31_557_600 * 12_345, "12,345 years"),
    ],
)
def test_durations_as_text(seconds: float, words: str) -> None:
    assert duration(seconds) == words


# --- times -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", TICKS)
@pytest.mark.parametrize(
    "given",
    [
        "2024-05-01T06:30:00.25",
        "2024-05-01T06:30:00.250Z",
        "2024-05-01 08:30:00.25+02:00",
        datetime(2024, 5, 1, 6, 30, 0, 250_000),
        datetime(2024, 5, 1, 6, 30, 0, 250_000, tzinfo=UTC),
        datetime(2024, 5, 1, 1, 30, 0, 250_000, tzinfo=timezone(timedelta(hours=-5))),
        np.datetime64("2024-05-01T06:30:00.250"),
        np.datetime64("2024-05-01T06:30:00.250000000"),
        pd.Timestamp("2024-05-01 06:30:00.25"),
        pd.Timestamp("2024-05-01 08:30:00.25", tz="Europe/Berlin"),
    ],
    ids=repr,
)
def test_a_date_in_every_type_and_unit(given: Any, unit: str) -> None:
    per = TICKS[unit]
    t = np.array([(MAY - 9) * per, (MAY + 9) * per])
    expected = (MAY + 6 * 3600 + 30 * 60) * per + per / 4 if per == 1 else (MAY + 23_400) * per + per // 4
    assert parse_time(given, TimeSpan.of(t), "at") == expected


@pytest.mark.parametrize("given", ["2024-05-01", date(2024, 5, 1), np.datetime64("2024-05-01")], ids=repr)
def test_a_day_means_its_beginning(given: Any) -> None:
    found = parse_time(given, TimeSpan.of(np.array([MAY - 5.5, MAY])), "at")
    assert (found, type(found)) == (MAY, int)


def test_a_nanosecond_is_not_lost() -> None:
    t = np.array([MAY * 10**9, MAY * 10**9 + 5])
    assert (
        parse_time(np.datetime64("2024-05-01T00:00:00.123456789"), TimeSpan.of(t), "at")
        == MAY * 10**9 + 123_456_789
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [(7, 7), (2.5, 2.5), ("7", 7), ("2.5", 2.5), ("-3", -3), (np.int64(2**60 + 1), 2**60 + 1)],
)
def test_numbers_are_returned_unchanged(given: Any, expected: float) -> None:
    found = parse_time(given, TimeSpan.of(np.array([1, 9])), "at")
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    "given",
    ["noon", "", [3], None, True, np.datetime64("NaT", "s"), pd.NaT, np.timedelta64(3, "s")],
    ids=repr,
)
def test_values_that_are_not_times_are_rejected(given: Any) -> None:
    with pytest.raises(DataError, match=r"^--at x: not a time; use a number as in the events, or a date"):
        parse_time(given, TimeSpan.of(np.array([1, 9])), "--at x")


def test_a_date_is_rejected_if_the_times_are_not_dates() -> None:
    """Seconds from 1970 on are dates once more, though the clock is not sure of them."""
    with pytest.raises(DataError, match=r"run from 5 to 2,000 and do not look like dates; use a number"):
        parse_time("2024-05-01", TimeSpan.of(np.array([5, 2000])), "--at x")
    assert parse_time("1970-01-01T00:10", TimeSpan.of(np.array([5, 2000])), "--at x") == 600


def test_iso_dates_of_unix_times() -> None:
    may = 1_714_521_600
    assert TimeSpan.of(np.array([may])).iso(may + 5) == "2024-05-01T00:00:05Z"
    assert TimeSpan.of(np.array([1000 * may])).iso(1000 * may + 500) == "2024-05-01T00:00:00.500000Z"
    assert TimeSpan.of(np.array([5, 9])).iso(7) is None
    assert [TimeSpan.of(np.array([may])).written(t) for t in (may + 1, 5)] == ["2024-05-01T00:00:01Z", "5"]
    assert TimeSpan.of(np.array([5.0, 9.0])).written(7.5) == "7.5"
    assert TimeSpan.of(np.array([may])).written(math.nan) == "nan"


def test_dates_are_also_read_in_the_format_of_the_events() -> None:
    t, format = np.array([MAY - 60, MAY]), "%d.%m.%Y %H:%M"
    assert parse_time("01.05.2024 00:01", TimeSpan.of(t), "at", format) == MAY + 60
    assert parse_time("2024-05-01T00:02", TimeSpan.of(t), "at", format) == MAY + 120
    assert parse_time(str(MAY), TimeSpan.of(t), "at", format) == MAY
    assert parse_time("20240501", TimeSpan.of(t), "at", "%Y%m%d") == MAY
    with pytest.raises(
        DataError, match=r"such as 2024-05-01T12:00 or, as in the events, 01\.05\.2024 12:00 "
    ):
        parse_time("noon", TimeSpan.of(t), "--at noon", format)


@pytest.mark.parametrize(
    ("known", "new", "problem"),
    [
        (
            [MAY - 9000, MAY],
            [MAY + 5, MAY * 1000],
            "milliseconds since 1970, .* are seconds. Divide by 1,000.",
        ),
        ([MAY - 9000, MAY], [MAY + 5, MAY * 10**9], "nanoseconds .* Divide by 1,000,000,000."),
        ([MAY * 1000 - 1, MAY * 1000], [MAY * 1000 + 3, MAY + 9], "seconds .* Multiply by 1,000."),
        ([float(MAY - 60), float(MAY)], [MAY + 0.5, MAY * 1e6], "microseconds .* Divide by 1,000,000."),
        ([0, 2_678_373], [2_678_373, 2_678_400_000], "0 to 2,678,373. .* Divided by 1,000 it would fit"),
        ([0, 2_678_373], [2_678_373, 3_000_000 * 10**6], "Divided by 1,000,000 it would fit"),
        ([MAY - 9000, MAY], [MAY + 5, MAY // 60], "minutes since 1970, .* seconds. Multiply by 60."),
        ([MAY - 9000, MAY], [MAY + 5, MAY // 3600 - 900], "hours since 1970, .* Multiply by 3,600."),
        ([MAY * 1000 - 1, MAY * 1000], [MAY * 1000, MAY // 86_400], "days .* Multiply by 86,400,000."),
        ([0, 100_000], [100_001, MAY], "seconds since 1970, .* 0 to 100,000, are not dates"),
    ],
)
def test_a_time_in_another_unit_is_found(known: list[float], new: list[float], problem: str) -> None:
    found = find_wrong_unit(np.array(new), TimeSpan.of(np.array(known)))
    assert found is not None
    assert found.row == 1
    assert re.search(problem, found.problem)


def test_dates_are_seconds_in_any_year() -> None:
    span = TimeSpan.of(np.array([-3600, MAY]), dates=True)
    assert (span.unix, span.written(-3600)) == ("seconds", "1969-12-31T23:00:00Z (-3600)")
    assert TimeSpan.of(np.array([-3600, MAY])).written(-3600) == "-3600"
    wrong = find_wrong_unit(np.array([MAY // 3600]), TimeSpan.of(np.array([MAY - 60, MAY]), dates=True))
    assert wrong is not None
    assert "of the run are dates. Multiply by 3,600 to get seconds, or write dates." in wrong.problem


def test_dates_have_no_unit_to_mistake() -> None:
    known, december_1970 = TimeSpan.of(np.array([MAY - 60, MAY]), dates=True), np.array([28_857_600])
    assert find_wrong_unit(december_1970, known) is not None  # the minutes of a day in 2024
    assert find_wrong_unit(december_1970, known, dates=True) is None


@pytest.mark.parametrize("year", [-100, 20_000])
def test_years_without_a_date_are_numbers(year: int) -> None:
    t = (year - 1970) * 31_556_952
    span = TimeSpan.of(np.array([t, t + 5]), dates=True)
    assert str(span) == span.exact() == f"{t:,} to {t + 5:,}"
    assert TimeSpan.of(np.array([t, MAY]), dates=True).exact() == f"{t:,} to 2024-05-01"


@pytest.mark.parametrize(
    ("known", "new"),
    [
        ([MAY - 60, MAY], [MAY - 45 * 31_557_600]),  # late events of the seventies
        ([MAY - 60, MAY], [MAY + 1, MAY + 20 * 31_557_600, MAY - 20 * 31_557_600]),  # twenty years of silence
        ([MAY * 1000, MAY * 1000], [MAY * 1000 + 10**12]),
        ([5 * 10**8 + 1, 9 * 10**10], [6 * 10**11]),  # counters that look like dates go on
        ([1, 3], [3000, 3_000_000, MAY]),  # a toy, whose times may be anything
        ([0, 2_678_373], [2_678_373, 60 * 2_678_373, 250 * 2_678_373 // 100, -5]),
        ([0, 2_678_373_000], [2_678_373]),  # a late event
    ],
)
def test_a_long_silence_is_not_another_unit(known: list[float], new: list[float]) -> None:
    for one in new:
        assert find_wrong_unit(np.array([one]), TimeSpan.of(np.array(known))) is None
