"""Every export of a stream, read again: the same events, whatever the types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.event_files import assert_same, duckdb

from contig.data.events import EventStream
from contig.data.exports import with_dates
from contig.data.readers import read_events, read_pairs
from contig.errors import DataError

NUMBERS = np.array([[0.1, -3e30], [1e-30, 2.0], [7.0, 0.3]], dtype=np.float32)

STREAMS = {
    "whole times": EventStream.from_arrays([5, 6, 5], [6, 7, 8], [1, 2, 2**60]),
    "real times": EventStream.from_arrays([5, 6, 5], [6, 7, 8], [-0.5, 2.25, 1e300]),
    "text ids": EventStream.from_arrays(["7", "07", "ä"], ["x", "y", ","], [1, 2, 3]),
    "labels": EventStream.from_arrays([5, 6, 5], [6, 7, 8], [1, 2, 3], label=[0, -1, 2**40]),
    "features": EventStream.from_arrays([5, 6, 5], [6, 7, 8], [1, 2, 3], edge_features=NUMBERS),
    "both sides": EventStream.from_arrays([1, 2, 1], [1, 2, 2], [1, 2, 3], bipartite=True),
}
EXPORTS: dict[str, Callable[[EventStream], Any]] = {
    "arrow": lambda stream: stream.to_arrow(),
    "arrow wide": lambda stream: stream.to_arrow(wide=True),
    "pandas": lambda stream: stream.to_pandas(),
    "pandas wide": lambda stream: stream.to_pandas(wide=True),
    "polars": lambda stream: stream.to_polars(),
    "polars lazy": lambda stream: stream.to_polars(wide=True).lazy(),
    "duckdb": lambda stream: duckdb.from_arrow(stream.to_arrow()),
    "dict": lambda stream: stream.to_arrow().to_pydict(),
}


@pytest.mark.parametrize("export", EXPORTS)
@pytest.mark.parametrize("name", STREAMS)
def test_an_export_is_read_again_as_the_same_events(name: str, export: str) -> None:
    stream = STREAMS[name]
    again = read_events(EXPORTS[export](stream), bipartite=stream.bipartite)
    assert_same(again, stream)
    assert again.t.dtype == stream.t.dtype


@pytest.mark.parametrize("name", [name for name in STREAMS if name != "text ids"])
def test_temporal_data_is_read_again_with_the_numbers_of_the_nodes(name: str) -> None:
    pytest.importorskip("torch_geometric")
    stream = STREAMS[name]
    again = read_events(stream.to_temporal_data(), bipartite=stream.bipartite)
    for column in ("src", "dst", "t", "label", "edge_features"):
        np.testing.assert_array_equal(getattr(again, column), getattr(stream, column))
    assert again.t.dtype == stream.t.dtype


def test_the_table_of_a_stream_has_the_ids_of_the_user() -> None:
    stream = EventStream.from_arrays(
        ["b", "a"], ["x", "b"], [4, 5], label=[1, 0], edge_features=[[2.5], [3.5]]
    )
    assert stream.to_arrow().to_pydict() == {
        **{"src": ["b", "a"], "dst": ["x", "b"], "t": [4, 5], "label": [1, 0]},
        "features": [[2.5], [3.5]],
    }
    assert stream.to_arrow(wide=True).column_names == ["src", "dst", "t", "label", "f0"]


@pytest.mark.parametrize(("factor", "unit"), [(1, "s"), (10**3, "ms"), (10**6, "us"), (10**9, "ns")])
def test_dates_keep_the_unit_of_the_stream(factor: int, unit: str) -> None:
    stream = EventStream.from_arrays([1, 2], [3, 4], [factor * 10**9, factor * (10**9 + 1)])
    times = stream.to_arrow(dates=True).column("t")
    assert times.type == pa.timestamp(unit, "UTC")
    assert [str(time)[:19] for time in times.to_pylist()] == ["2001-09-09 01:46:40", "2001-09-09 01:46:41"]
    assert read_events(stream.to_pandas(dates=True)).t.tolist() == [10**9, 10**9 + 1]


def test_dates_with_fractions_are_exact_to_the_microsecond() -> None:
    stream = EventStream.from_arrays([1, 2], [3, 4], [1e9 + 0.25, 1e9 + 0.000001])
    assert read_events(stream.to_polars(dates=True)).t.tolist() == sorted([1e9 + 0.25, 1e9 + 0.000001])


def test_times_that_are_not_dates_are_refused_as_dates() -> None:
    with pytest.raises(DataError, match="do not look like Unix times"):
        STREAMS["labels"].to_arrow(dates=True)


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([10**9, 10**9 + 1], ["2001-09-09T01:46:40Z", "2001-09-09T01:46:41Z"]),
        ([1e9, 1e9 + 0.25], ["2001-09-09T01:46:40.000000Z", "2001-09-09T01:46:40.250000Z"]),
        ([10**9, None], ["2001-09-09T01:46:40Z", None]),
        ([10**12, 10**9], [10**12, 10**9]),  # milliseconds in a stream of seconds are not dates
        ([10**18], [10**18]),
        ([1e15], [1e15]),
        ([-(10**12)], [-(10**12)]),
    ],
)
def test_times_outside_the_calendar_stay_numbers(
    times: list[float | None], expected: list[float | str | None]
) -> None:
    table = pa.table({"at": times})
    assert with_dates(table, text=True)["at"].to_pylist() == expected
    dates = with_dates(table, text=False)["at"]
    is_date = isinstance(expected[0], str)
    assert pa.types.is_timestamp(dates.type) is is_date
    assert is_date or dates.to_pylist() == times


def test_unknown_labels_are_missing_in_tables() -> None:
    stream = STREAMS["labels"]
    assert stream.to_arrow()["label"].to_pylist() == [0, None, 2**40]
    again = read_pairs(stream.to_arrow(), with_labels=True)
    assert again.columns.label.tolist() == stream.label.tolist()
    unknown = EventStream.from_arrays([5, 6], [6, 7], [1, 2], label=[-1, -1])
    assert read_pairs(unknown.to_arrow(), with_labels=True).columns.label is None


def test_temporal_data_marks_unknown_labels(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("torch_geometric")
    data = STREAMS["labels"].to_temporal_data()
    assert data.y_known.tolist() == [True, False, True]
    assert read_events(data).label.tolist() == STREAMS["labels"].label.tolist()
    assert "ignored" not in caplog.text
    complete = EventStream.from_arrays([5, 6], [6, 7], [1, 2], label=[1, 0])
    assert "y_known" not in complete.to_temporal_data()
