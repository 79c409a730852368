"""Dates in formats of the user's, compared with ``datetime.strptime``."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from contig.data import date_formats
from contig.data.columns import Column
from contig.data.readers import read_events
from contig.errors import ConfigError, DataError


def seconds(text: str, format: str) -> float:
    date = datetime.strptime(text, format)
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


@pytest.mark.parametrize(
    ("format", "written"),
    [
        ("%m/%d/%Y", ["05/13/2024", "5/14/2024"]),
        ("%m/%d/%Y %H:%M", ["2/29/2024 7:03", "02/29/2024 23:59"]),
        ("%m/%d/%y %I:%M %p", ["05/01/24 07:03 AM", "05/01/24 11:00 PM"]),
        ("%d.%m.%Y %H:%M:%S", ["13.05.2024 00:00:00", "14.05.2024 10:20:30"]),
        ("%Y-%m-%dT%H:%M:%S.%f", ["2024-05-01T00:00:00.250000", "2024-05-01T00:00:00.5"]),
        ("%d/%b/%Y:%H:%M:%S %z", ["10/Oct/2023:13:55:36 -0700", "10/Oct/2023:22:55:37 +0000"]),
        ("%Y%m%d", ["20240501", "20240502"]),
    ],
)
def test_dates_are_read_as_strptime_does(format: str, written: list[str], tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("src,dst,t\n" + "".join(f"{i},{i + 7},{text}\n" for i, text in enumerate(written)))
    stream = read_events(path, date_format=format)
    assert stream.t.tolist() == [seconds(text, format) for text in written]


@pytest.mark.parametrize("bad", ["02/30/2024", "13/01/2024", "5/1/24", "05/01/2024 x", "", "05/01/0024"])
def test_the_fast_route_takes_nothing_that_strptime_refuses(bad: str) -> None:
    column = Column.of(np.array(["05/01/2024", bad]), "t", "dates")
    assert date_formats._fast(column.plain(), "%m/%d/%Y") is None


def test_the_first_date_that_does_not_fit_is_named(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("src,dst,t\n1,2,05/01/2024\n3,4,2024-05-01\n")
    with pytest.raises(
        DataError, match=r"log.csv, line 3, column 't': '2024-05-01' does not match date_format"
    ):
        read_events(path, date_format="%m/%d/%Y")
    with pytest.raises(DataError, match=r"line 2.* is not a time; .* date_format"):
        read_events(path)


@pytest.mark.parametrize("format", ["%Q", "%H:%M", "%m/%d", "plain"])
def test_a_format_that_names_no_date_is_refused(format: str) -> None:
    with pytest.raises(ConfigError, match="date_format="):
        read_events({"src": [1], "dst": [2], "t": ["05/01/2024"]}, date_format=format)


def test_a_date_format_is_for_text() -> None:
    with pytest.raises(DataError, match="date_format is for dates that are written as text"):
        read_events({"src": [1], "dst": [2], "t": [20240501]}, date_format="%Y%m%d")


@pytest.mark.parametrize(
    ("written", "advice"),
    [
        (
            ["01.02.2024 08:05", "13.01.2024 08:05"],
            "set date_format='%d.%m.%Y %H:%M' (--date-format '%d.%m.%Y",
        ),
        (["01/02/2024", "1/13/2024"], "set date_format='%m/%d/%Y' (--date-format '%m/%d/%Y')"),
        (["02.01.2024 08:05", "03.01.2024 09:05"], "date_format='%d.%m.%Y %H:%M' or '%m.%d.%Y %H:%M'"),
        (["12 May 2024", "13 May 2024"], "date_format='%d %b %Y' if months are abbreviated (Jun)"),
        (["12 May 2024", "13 Jun 2024"], "set date_format='%d %b %Y' (--date-format"),
        (["May 12 2024", "June 13 2024"], "set date_format='%B %d %Y' (--date-format"),
        (["2/29/24 7:03 PM", "3/1/24 11:59 AM"], "set date_format='%m/%d/%y %I:%M %p'"),
        (["2024/05/01 10:00:00", "2024/05/02 10:00:00"], "set date_format='%Y/%m/%d %H:%M:%S'"),
        (["13.01.2024", "yesterday"], "'13.01.2024' is not a time; use a finite number or a date"),
        (["13.14.2024", "14.13.2024"], "'13.14.2024' is not a time; use a finite number or a date"),
    ],
)
def test_an_error_suggests_the_format_that_all_dates_fit(
    written: list[str], advice: str, tmp_path: Path
) -> None:
    path = tmp_path / "log.csv"
    path.write_text("src,dst,t\n" + "".join(f"{i},{i + 7},{text}\n" for i, text in enumerate(written)))
    with pytest.raises(DataError) as refused:
        read_events(path)
    assert advice in str(refused.value)
    assert ("cannot be told apart" in str(refused.value)) == (" or '" in advice)
