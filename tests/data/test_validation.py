"""The same values are accepted or rejected, with the same words, from arrays and from tables."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from contig.data.events import EventStream
from contig.data.readers import read_events
from contig.errors import DataError

GOOD: dict[str, Any] = {"src": [1, 2, 3], "dst": [4, 5, 6], "t": [0, 1, 2]}


def from_arrays(**columns: Any) -> EventStream:
    return EventStream.from_arrays(**{**GOOD, **columns}, origin="mine")


def from_table(**columns: Any) -> EventStream:
    return read_events(pa.table({**GOOD, **columns}))


def rejection(route: Any, **columns: Any) -> str:
    with pytest.raises(DataError) as caught:
        route(**columns)
    return str(caught.value)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("src", [1.5, 2, 3], "row 0 (counted from 0), column 'src': 1.5 is not an id; ids are whole numbers"),
        ("dst", [1, float("nan"), 3], "row 1 (counted from 0), column 'dst': nan is not an id"),
        ("dst", [0.0, 1.0, 2.0**53], "row 2 (counted from 0), column 'dst': 9007199254740992.0 is not an id"),
        ("dst", ["a", None, "c"], "row 1 (counted from 0), column 'dst': the id is missing; fill it in"),
        (
            "dst",
            ["a", "", "c"],
            "row 1 (counted from 0), column 'dst': '' is not an id: it is empty. Fill it in",
        ),
        ("src", np.array([1, 2, 2**63], np.uint64), "column 'src': 9223372036854775808 is larger than"),
        ("src", [True, False, True], "column 'src' holds bool values; ids must be integers or text."),
        ("t", [0, float("inf"), 2], "row 1 (counted from 0), column 't': inf is not a time; use a finite"),
        ("t", ["a", "b", "c"], "row 0 (counted from 0), column 't': 'a' is not a time"),
        (
            "t",
            ["2024-05-01", "2024-13-01", "2024-05-02"],
            "row 1 (counted from 0), column 't': '2024-13-01' is",
        ),
        (
            "t",
            np.array(["2020", "NaT", "2021"], "M8[s]"),
            "row 1 (counted from 0), column 't': the time is miss",
        ),
        (
            "t",
            np.array(["2020", "2021", "300000"], "M8[s]"),
            "row 2 (counted from 0), column 't': 9404918380800 is too far from",
        ),
        ("t", np.array([0, 2**63, 1], np.uint64), "column 't': 9223372036854775808 is larger than a signed"),
        ("t", [True, False, True], "column 't' holds bool values; times must be numbers, dates"),
        ("label", ["x", "y", "z"], "row 0 (counted from 0), column 'label': 'x' is not a whole number"),
        ("label", ["1.0", "0", "0.5"], "row 2 (counted from 0), column 'label': 0.5 is not a whole number"),
        ("label", [0, float("inf"), 1], "row 1 (counted from 0), column 'label': inf is not a whole number"),
    ],
)
def test_arrays_and_tables_are_rejected_alike(column: str, values: Any, message: str) -> None:
    from_rows, from_columns = (
        rejection(from_arrays, **{column: values}),
        rejection(from_table, **{column: values}),
    )
    assert message in from_rows
    assert from_rows.removeprefix("mine") == from_columns.removeprefix("pyarrow Table")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"src": [1, 2]}, "mine: columns differ in length (src 2, dst 3, t 3)"),
        ({"label": [1]}, "mine: columns differ in length (src 3, dst 3, t 3, label 1)"),
        ({"edge_features": [[1], [2]]}, "(src 3, dst 3, t 3, edge_features 2)"),
        ({"src": [], "dst": [], "t": []}, "mine: there are no events"),
        ({"src": [[1], [2], [3]]}, "mine: column 'src' has shape (3, 1)"),
        (
            {"src": [1j, 2j, 3j]},
            "mine: column 'src' holds complex128 values; expected numbers, text or dates",
        ),
        ({"edge_features": [1, 2, 3]}, "mine: edge_features has shape (3,)"),
        ({"edge_features": [[1], [2, 3], [4]]}, "mine: edge_features must be a table of numbers"),
        (
            {"edge_features": [[0, 0], [0, float("nan")], [0, 0]]},
            "mine, row 1 (counted from 0), edge_features: feature 1, nan, is not a finite float32",
        ),
        (
            {"edge_features": [[0, 0], [0, 0], [1e300, 0]]},
            "feature 0, 1e+300, is not a finite float32; scale",
        ),
    ],
)
def test_arrays_that_do_not_fit_are_rejected(columns: dict[str, Any], message: str) -> None:
    assert message in rejection(from_arrays, **columns)


@pytest.mark.parametrize("route", [from_arrays, from_table])
def test_ids_keep_every_bit(route: Any) -> None:
    large = [-(2**63), 2**63 - 1, 2**53 + 1]
    stream = route(src=large)
    assert stream.ids.labels[stream.src].tolist() == large
    unsigned = np.array([3, 2**63 - 1, 9], dtype=np.uint64)
    stream = route(src=unsigned)
    assert stream.ids.labels[stream.src].tolist() == unsigned.tolist()


def test_ids_of_several_types_become_text() -> None:
    stream = from_arrays(src=np.array(["b", 7, 2.5], dtype=object))
    assert stream.ids.labels[stream.src].tolist() == ["b", "7", "2.5"]
    assert "row 2 (counted from 0), column 'src': the id is missing" in rejection(
        from_arrays, src=np.array(["b", 7, float("nan")], dtype=object)
    )


def test_objects_of_one_type_keep_it() -> None:
    frame = pd.DataFrame(
        {"src": [5, 6, 7], "when": pd.to_datetime(["2024-05-01", "2024-05-02", "2024-05-03"])}
    )
    stream = from_arrays(src=frame["src"].astype(object), t=[day.to_pydatetime() for day in frame["when"]])
    assert stream.ids.labels[stream.src].tolist() == [5, 6, 7]
    assert np.diff(stream.t).tolist() == [86_400, 86_400]


@pytest.mark.parametrize("route", [from_arrays, from_table])
@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (["1970-01-02", "1970-01-02T00:00:01", "1970-01-03"], [86_400, 86_401, 172_800]),
        (["1969-12-31T23:59:59.5", "1970-01-01", "1970-01-01T00:00:01.5"], [-0.5, 0.0, 1.5]),
        (["1", "2", "3"], [1, 2, 3]),
        (["1", "2", "3.5"], [1.0, 2.0, 3.5]),
    ],
)
def test_written_times_are_parsed(route: Any, written: list[str], seconds: list[float]) -> None:
    t = route(t=written).t
    assert t.tolist() == seconds
    assert [type(value) for value in t.tolist()] == [type(value) for value in seconds]


@pytest.mark.parametrize("unit", ["Y", "M", "W", "D", "h", "m", "s", "ms", "us"])
def test_numpy_dates_of_every_unit_are_those_of_the_calendar(unit: str) -> None:
    # Thursdays, as numpy counts weeks from one.
    written = ["1586-01-02", "1970-01-01", "2026-01-01"]
    dates = np.array(written, dtype="datetime64[D]").astype(f"datetime64[{unit}]")
    expected = [datetime.fromisoformat(str(x)).replace(tzinfo=UTC).timestamp() for x in dates.astype("M8[D]")]
    assert from_arrays(t=dates).t.tolist() == expected


@pytest.mark.parametrize("unit", ["ns", "ps", "fs"])
def test_dates_finer_than_a_microsecond_are_rejected(unit: str) -> None:
    dates = np.array(["1970-01-01T00:00:01.5"] * 3, dtype="datetime64[us]").astype(f"datetime64[{unit}]")
    assert from_arrays(t=dates).t.tolist() == [1.5, 1.5, 1.5]
    dates[2] += 999 * {"ns": 1, "ps": 10**3, "fs": 10**6}[unit]
    assert "row 2 (counted from 0), column 't'" in rejection(from_arrays, t=dates)
    assert "finer than a microsecond" in rejection(from_arrays, t=dates)


@pytest.mark.parametrize("unit", ["ps", "fs"])
def test_dates_finer_than_a_nanosecond_are_rejected(unit: str) -> None:
    dates = np.array(["1970-01-01T00:00:01.5"] * 3, dtype=f"datetime64[{unit}]")
    dates[1] += 1
    assert "finer than a nanosecond" in rejection(from_arrays, t=dates)


def test_a_fraction_that_float64_cannot_hold_is_rejected() -> None:
    dates = np.array(["9999-01-01T00:00:00.000001", "9999-01-01T00:00:00", "9999-01-02"], "datetime64[us]")
    assert "too far from 1970 for its fraction" in rejection(from_arrays, t=dates)
    assert from_arrays(t=dates[[1, 1, 2]]).t.dtype == np.int64


NANOSECONDS = [1_500_000_000_000_000_001, 1_500_000_000_000_000_002, 1_500_000_000_000_000_003]


@pytest.mark.parametrize("last", ["", ".", ".0", ".000"])
def test_whole_times_beyond_float64_stay_exact_however_they_are_written(last: str) -> None:
    written = [str(NANOSECONDS[0]), str(NANOSECONDS[1]), f"{NANOSECONDS[2]}{last}"]
    assert from_arrays(t=written).t.tolist() == NANOSECONDS


def test_a_float_among_integers_of_a_list_does_not_round_them() -> None:
    assert "row 0" in rejection(from_arrays, t=[*NANOSECONDS[:2], 1.6e18])
    assert from_arrays(t=[2**60, 2**60 + 256, 1.6e18]).t.tolist() == [2**60, 2**60 + 256, 1.6e18]


@pytest.mark.parametrize(
    ("written", "row"),
    [
        (["1500000000.123456781", "1500000000.123456789", "1500000000.5"], "row 1"),
        (["0.5", "9007199254740993", "9007199254740994"], "row 1"),
        (["1500000000000000001", "1500000000000000002", "1500000000000000002.5"], "row 0"),
    ],
)
def test_written_times_that_float64_would_change_are_rejected(written: list[str], row: str) -> None:
    message = rejection(from_arrays, t=written)
    assert f"{row} (counted from 0), column 't'" in message
    assert "more digits than float64 holds" in message


def test_long_times_that_stay_different_are_read() -> None:
    written = ["1500000000.1234560", "1500000000.123456", "1500000000.123457"]  # the first two are one time
    assert from_arrays(t=written).t.tolist() == [float(x) for x in written]


def test_decimal_times_are_exact_or_rejected() -> None:
    exact = [Decimal("1.5"), Decimal("2.25"), Decimal("3")]
    assert from_arrays(t=np.array(exact, dtype=object)).t.tolist() == [1.5, 2.25, 3.0]
    fine = [Decimal("1500000000.123456781"), Decimal("1500000000.123456789"), Decimal("1500000001")]
    assert "becomes equal to another time" in rejection(from_arrays, t=np.array(fine, dtype=object))


@pytest.mark.parametrize("zone", ["", "Z", "+01:00"])
def test_written_dates_finer_than_a_microsecond_are_rejected(zone: str) -> None:
    dates = [f"2024-05-01T12:00:00.123456000{zone}", f"2024-05-01T12:00:01{zone}", "2024-05-01T12:00:02Z"]
    assert from_arrays(t=dates).t[0] % 1 == pytest.approx(0.123456, abs=1e-6)
    dates[1] = f"2024-05-01T12:00:01.123456001{zone}"
    message = rejection(from_arrays, t=dates)
    assert "row 1" in message
    assert "finer than a microsecond" in message


@pytest.mark.parametrize(("unit", "year"), [("s", 300_000), ("D", -300_000), ("Y", 400_000), ("Y", 10**9)])
def test_dates_beyond_64_bit_microseconds_are_rejected(unit: str, year: int) -> None:
    dates = np.array([50, 51, year - 1970]).astype("datetime64[Y]").astype(f"datetime64[{unit}]")
    message = rejection(from_arrays, t=dates)
    assert message.startswith("mine, row 2 (counted from 0), column 't':")
    assert message.endswith("is too far from 1970.")


def test_times_keep_their_precision() -> None:
    stream = EventStream.from_arrays([0, 1], [1, 0], np.array([1_700_000_001, 1_700_000_002], dtype=np.int32))
    assert stream.t.dtype == np.int64
    assert np.diff(stream.t).tolist() == [1]
    fractional = EventStream.from_arrays([0, 1], [1, 0], [1_700_000_001.25, 1_700_000_001.5])
    assert fractional.t.dtype == np.float64
    assert np.diff(fractional.t).tolist() == [0.25]


def test_unsigned_times_become_signed() -> None:
    # As unsigned numbers their differences would wrap around.
    t = np.array([5, 3, 2**63 - 1], dtype=np.uint64)
    stream = EventStream.from_arrays([0, 1, 2], [1, 2, 0], t)
    assert stream.t.dtype == np.int64
    assert stream.t.tolist() == [3, 5, 2**63 - 1]
    assert (stream.t[:1] - stream.t[1:2]).tolist() == [-2]


def test_labels_may_be_whole_numbers_of_any_type() -> None:
    for labels in (
        ["1.0", "0", "2"],
        [1.0, 0.0, 2.0],
        np.array([1, 0, 2], dtype=np.uint8),
        ["1", "0", "2.0"],
        ["yes", " False", "2"],
        ["T", "n", "2"],
    ):
        stream = EventStream.from_arrays([1, 2, 3], [4, 5, 6], [0, 1, 2], label=labels)
        assert stream.label is not None
        assert stream.label.dtype == np.int64
        assert stream.label.tolist() == [1, 0, 2]
