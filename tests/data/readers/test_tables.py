from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.event_files import assert_same, duckdb, pl, rejection

from contig.data.events import EventStream
from contig.data.readers import read_events
from contig.data.validation import UNKNOWN_LABEL
from contig.errors import DataError


def test_categorical_ids_of_any_kind() -> None:
    names = ["b", "a", "b", "c"]
    frame = pd.DataFrame({"src": pd.Categorical(names, categories=["z", "c", "b", "a"]), "t": range(4)})
    frame["dst"] = pd.Categorical([3, 1, 2, 1])
    expected = EventStream.from_arrays(names, [3, 1, 2, 1], range(4))
    assert_same(read_events(frame), expected)
    assert_same(read_events(pl.from_pandas(frame)), expected)


def test_ids_of_other_number_types() -> None:
    table = pa.table(
        {
            "src": pa.array([5, 6], pa.uint8()),
            "dst": pa.array([7.0, 5.0], pa.float32()),
            "t": pa.array([1.5, 2.25], pa.float16()) if hasattr(pa, "float16") else [1.5, 2.25],
        }
    )
    assert_same(read_events(table), EventStream.from_arrays([5, 6], [7, 5], [1.5, 2.25]))
    decimals = duckdb.sql("select 5::hugeint as src, 7::decimal(9, 0) as dst, 1.25 as t")
    assert_same(read_events(decimals), EventStream.from_arrays([5], [7], [1.25]))


DAY = 86_400


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (["1970-01-02", "1970-01-03"], [DAY, 2 * DAY]),
        (["1970-01-01 00:00:05", "1970-01-02"], [5, DAY]),
        (["1970-01-01T00:00:05Z", "1970-01-01T02:00:06+02:00"], [5, 6]),
        (["1970-01-01T00:00:05", "1970-01-01T02:00:06+02:00"], [5, 6]),  # naive counts as UTC
        (["1970-01-01T00:00:05.25", "1970-01-01T00:00:06.5"], [5.25, 6.5]),
        (["1969-12-31T23:59:59.5Z", "1970-01-01T00:00:00Z"], [-0.5, 0.0]),
        (["1600-01-01T00:00:00.5", "2500-01-01T00:00:00"], [-11676095999.5, 16725225600.0]),
        (["5", "6.5"], [5.0, 6.5]),
        (["1700000001", "1700000002"], [1700000001, 1700000002]),
        (["1e3", "2e3"], [1000.0, 2000.0]),
    ],
)
def test_written_times_become_seconds(
    written: list[str], seconds: list[int] | list[float], tmp_path: Path
) -> None:
    expected = EventStream.from_arrays([1, 2], [2, 3], seconds)
    path = tmp_path / "events.csv"
    path.write_text("src,dst,t\n" + "".join(f"{i + 1},{i + 2},{t}\n" for i, t in enumerate(written)))
    assert_same(read_events(path), expected)
    assert_same(read_events(pa.table({"src": [1, 2], "dst": [2, 3], "t": written})), expected)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_arrow_timestamps_become_seconds(unit: str) -> None:
    values = pa.array(np.array(["2001-09-09T01:46:40", "2001-09-09T01:46:41"], dtype=f"datetime64[{unit}]"))
    for stamps in (
        values,
        values.cast(pa.timestamp(unit, "Europe/Vienna")),
    ):  # an instant, whatever the zone
        stream = read_events(pa.table({"src": [1, 2], "dst": [2, 3], "t": stamps}))
        assert stream.t.dtype == np.int64
        assert stream.t.tolist() == [10**9, 10**9 + 1]


def test_nanoseconds_are_read_as_far_as_microseconds_hold_them() -> None:
    stamps = pa.array([1_500_000_000, 2_000_001_000], pa.timestamp("ns"))
    assert read_events(pa.table({"src": [1, 2], "dst": [2, 3], "t": stamps})).t.tolist() == [1.5, 2.000001]
    stamps = pa.array([1_500_000_000, 2_000_000_001], pa.timestamp("ns"))
    with pytest.raises(DataError, match=r"row 1 .*finer than a microsecond"):
        read_events(pa.table({"src": [1, 2], "dst": [2, 3], "t": stamps}))


def test_a_code_outside_of_its_dictionary_is_rejected() -> None:
    names = pa.array(["a", "b"])
    codes = [pa.array([0, 1], pa.int8()), pa.array([1, 2], pa.int8())]
    chunks = [pa.DictionaryArray.from_arrays(one, names, safe=False) for one in codes]
    table = pa.table({"src": pa.chunked_array(chunks), "dst": [1, 2, 3, 4], "t": [1, 2, 3, 4]})
    with pytest.raises(DataError, match=r"row 3 .*column 'src': the code 2 is outside of its dictionary"):
        read_events(table)
    with pytest.raises(DataError, match=r"row 3 .*column 'src': the code 2 is outside of its dictionary"):
        read_events(table, dst="t", t="src", src="dst")


def test_dates_and_frames_with_timestamps() -> None:
    base = {"src": [1, 2], "dst": [2, 3]}
    days = pa.array([1, 3], pa.date32())
    assert read_events(pa.table({**base, "date": days})).t.tolist() == [DAY, 3 * DAY]
    assert read_events(pa.table({**base, "date": days.cast(pa.date64())})).t.tolist() == [DAY, 3 * DAY]
    local = pd.to_datetime(["1970-01-01 02:00", "1970-01-01 03:00:00.5"], format="ISO8601").tz_localize(
        "Asia/Kolkata"
    )
    expected = [2 * 3600 - 19_800, 3 * 3600 + 0.5 - 19_800]
    assert read_events(pd.DataFrame({**base, "ts": local})).t.tolist() == expected
    naive = pl.DataFrame({**base, "ts": ["1970-01-01 00:00:07", "1970-01-01 00:00:09"]})
    assert read_events(naive.with_columns(pl.col("ts").str.to_datetime())).t.tolist() == [7, 9]
    zoned = duckdb.sql("select 1 as src, 2 as dst, timestamptz '1970-01-01 01:00:00+01' as t")
    assert read_events(zoned).t.tolist() == [0]


def test_float32_times_are_widened() -> None:
    stream = read_events(pa.table({"src": [1, 2], "dst": [2, 3], "t": pa.array([0.5, 1.5], pa.float32())}))
    assert stream.t.dtype == np.float64


def test_labels_may_be_booleans_or_whole_floats() -> None:
    base = {"src": [1, 2], "dst": [2, 3], "t": [0, 1]}
    for labels in ([True, False], [1.0, 0.0], ["1", "0"]):
        stream = read_events(pa.table({**base, "label": labels}))
        assert stream.label is not None
        assert stream.label.dtype == np.int64
        assert stream.label.tolist() == [1, 0]


@pytest.mark.parametrize(
    "labels",
    [
        [1, None, 0],
        [1.0, None, 0.0],
        [1.0, float("nan"), 0.0],
        [True, None, False],
        pa.array([1, None, 0], pa.uint8()),
        ["yes", None, "no"],
        ["yes", "", "no"],
        ["1", " ", "0"],
        [1, -1, 0],
        pa.array(["1", None, "0"]).dictionary_encode(),
    ],
)
def test_missing_labels_are_unknown(labels) -> None:
    base = {"src": [1, 2, 1], "dst": [2, 3, 3], "t": [0, 1, 2]}
    assert read_events(pa.table({**base, "label": labels})).label.tolist() == [1, UNKNOWN_LABEL, 0]
    nothing = pa.table({**base, "label": pa.nulls(3, pa.string())})
    assert read_events(nothing).label.tolist() == 3 * [UNKNOWN_LABEL]


@pytest.mark.parametrize(
    ("column", "values", "parts"),
    [
        ("src", [1, None, 3], ["row 1 (counted from 0)", "column 'src'", "the id is missing"]),
        ("src", ["a", "b", None], ["row 2", "column 'src'", "the id is missing"]),
        ("dst", ["a", "", "b"], ["row 1", "column 'dst'", "''", "Fill it in, or remove the event"]),
        ("dst", ["a", "b", "b\0"], ["row 2", "column 'dst'", "'b\\x00'"]),
        ("dst", [1.0, 2.5, 3.0], ["row 1", "column 'dst'", "2.5"]),
        ("dst", pa.array([1, 2**63, 3], pa.uint64()), ["row 1", "9223372036854775808", "64-bit"]),
        ("dst", pa.array([b"a", b"b", b"\xff\xfe"]), ["row 2", "b'\\xff\\xfe'", "UTF-8"]),
        ("dst", [[1], [2], [3]], ["column 'dst'", "list", "integers or text"]),
        ("dst", [True, False, True], ["column 'dst'", "bool", "integers or text"]),
        ("t", [0.0, float("nan"), 1.0], ["row 1", "column 't'", "nan", "is not a time"]),
        ("t", [0.0, 1.0, float("-inf")], ["row 2", "column 't'", "-inf"]),
        ("t", [0, None, 2], ["row 1", "column 't'", "the time is missing"]),
        ("t", ["2020-01-01", "2020-13-01", "2020-01-02"], ["row 1", "'2020-13-01'", "ISO 8601"]),
        ("t", ["1", "2", "x"], ["row 2", "'x'", "is not a time"]),
        ("t", pa.array([1, 2, 3], pa.time32("s")), ["column 't'", "time32", "times must be"]),
        ("label", ["0", "bad", "1"], ["row 1", "column 'label'", "'bad'"]),
        ("label", pa.array([1, None, 3], pa.date32()), ["column 'label'", "date32", "must be numbers"]),
        ("label", pa.array([1, None, 3], pa.time32("s")), ["column 'label'", "time32", "must be numbers"]),
        ("label", [[1], None, [0]], ["column 'label'", "list", "must be numbers"]),
        ("label", [{"a": 1}, None, {"a": 0}], ["column 'label'", "struct", "must be numbers"]),
        ("f1", [0.0, 1.0, None], ["row 2", "column 'f1'", "missing"]),
        ("f1", ["0", "x", "1"], ["row 1", "column 'f1'", "'x'", "is not a number"]),
        ("features", [[1.0], [2.0], [3.0, 4.0]], ["row 2", "column 'features'", "2 features", "has 1"]),
        ("features", [[1.0, 2.0], None, [3.0, 4.0]], ["row 1", "the feature list is missing"]),
        ("features", [[1.0, 2.0], [3.0, float("inf")], [3.0, 4.0]], ["row 1", "feature 1 of [3.0, inf]"]),
        ("features", [["0", "1"], ["2", "a"], ["3", "4"]], ["row 1", "'a'", "is not a number"]),
    ],
)
def test_a_bad_row_of_a_table_or_parquet_file_is_reported(
    column: str, values: Any, parts: list[str], tmp_path: Path
) -> None:
    table = pa.table({"src": [1, 2, 3], "dst": [2, 3, 4], "t": [0, 1, 2]} | {column: values})
    path = tmp_path / "events.parquet"
    pq.write_table(table, path)
    for source, origin in ((table, "pyarrow Table"), (path, str(path))):
        message = rejection(source)
        assert message.startswith(origin)
        for part in parts:
            assert part in message


def test_timestamps_beyond_64_bit_microseconds_are_rejected() -> None:
    table = pa.table({"src": [1, 2], "dst": [2, 3], "t": pa.array([1, 2**60], pa.timestamp("s"))})
    assert "row 1 (counted from 0), column 't': 1152921504606846976 is too far from 1970" in rejection(table)


def test_columns_of_one_name_are_refused_where_pandas_cannot_export_them() -> None:
    frame = pd.DataFrame([[1, 2, 3, 4.0, 5.0]], columns=["src", "dst", "t", "price", "price"])
    with pytest.raises(DataError, match="pandas DataFrame: 2 columns are called 'price'; rename all but one"):
        read_events(frame)
    relation = duckdb.sql("SELECT 1 src, 2 dst, 3 t, 4 price, 5 price")
    assert len(read_events(relation, src=0, dst=1, t=2)) == 1
