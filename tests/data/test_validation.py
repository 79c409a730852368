"""Columns keep their values exactly or are refused by row; whole streams of them are in test_events."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from contig.data.validation import id_column, time_column, unix_seconds
from contig.errors import DataError


def test_unix_seconds() -> None:
    whole = unix_seconds(np.array(["1970-01-02", "1969-12-31T23:59:59"], dtype="datetime64[ns]"))
    assert whole.dtype == np.int64
    assert whole.tolist() == [86_400, -1]
    halves = unix_seconds(
        np.array(["1970-01-01T00:00:01.5", "1969-12-31T23:59:59.5"], dtype="datetime64[ms]")
    )
    assert halves.dtype == np.float64
    assert halves.tolist() == [1.5, -0.5]


@pytest.mark.parametrize("unit", ["Y", "M", "D", "h", "s", "ms", "us"])
def test_moments_of_every_unit_are_those_of_the_calendar(unit: str) -> None:
    written = ["1583-01-01", "1969-01-01", "2024-01-01", "9999-01-01"]
    expected = [datetime.fromisoformat(x).replace(tzinfo=UTC).timestamp() for x in written]
    assert time_column(np.array(written, dtype=f"datetime64[{unit}]"), "mine").tolist() == expected


@pytest.mark.parametrize(("unit", "year"), [("s", 300_000), ("D", -300_000), ("Y", 400_000), ("Y", 10**15)])
def test_moments_beyond_64_bit_microseconds_are_refused(unit: str, year: int) -> None:
    moments = np.array([50, 51, year - 1970]).astype("datetime64[Y]").astype(f"datetime64[{unit}]")
    with pytest.raises(DataError, match=r"mine: column 't', row 2: time -?\d+.* lies too far from 1970"):
        time_column(moments, "mine")


def test_ids_keep_every_bit() -> None:
    large = [-(2**63), 2**63 - 1, 2**53 + 1]
    assert id_column(large, "src", "mine").tolist() == large
    assert id_column(np.array([3, 2**63 - 1], dtype=np.uint64), "src", "mine").tolist() == [3, 2**63 - 1]
    assert id_column(np.array(["b", 7], dtype=object), "src", "mine").tolist() == ["b", "7"]
    with pytest.raises(DataError, match=r"mine: column 'src', row 1: id 9007199254740992.0 is not a whole"):
        id_column([0.0, 2.0**53], "src", "mine")  # beyond it floats skip whole numbers


def test_a_missing_id_is_told_before_one_that_is_not_whole() -> None:
    with pytest.raises(DataError, match=r"column 'dst', row 2: id nan is missing; ids must be"):
        id_column([1.0, 1.5, float("nan")], "dst", "mine")


@pytest.mark.parametrize(("values", "kind"), [([True, False], "bool"), ([1j, 2j], "complex128")])
def test_ids_of_other_types_are_refused(values: list[object], kind: str) -> None:
    with pytest.raises(DataError, match=f"column 'src' holds {kind} values; ids must be integers or strings"):
        id_column(values, "src", "mine")
