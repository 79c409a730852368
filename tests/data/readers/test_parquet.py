from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.event_files import as_parquet, assert_same, rejection, seven

from contig.data.events import EventStream
from contig.data.readers import parquet, read_events
from contig.errors import DataError


def test_a_bad_row_of_a_folder_is_reported_with_its_file(tmp_path: Path) -> None:
    good = pa.table({"src": [1, 2, 3], "dst": [2, 3, 4], "t": [0.0, 1.0, 2.0]})
    bad = pa.table({"src": [1, 2], "dst": [2, 3], "t": [3.0, float("nan")]})
    pq.write_table(good, tmp_path / "a.parquet")
    pq.write_table(bad, tmp_path / "b.parquet")
    assert rejection(tmp_path).startswith(
        f"{tmp_path / 'b.parquet'}, row 1 (counted from 0), column 't': nan"
    )


def test_files_of_a_folder_must_agree(tmp_path: Path) -> None:
    pq.write_table(pa.table({"src": [1], "dst": [2], "t": [0]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"src": [1], "to": [2], "t": [0]}), tmp_path / "b.parquet")
    message = rejection(tmp_path)
    assert message.startswith(str(tmp_path / "b.parquet"))
    assert "no column 'dst'" in message
    assert "'to'" in message
    pq.write_table(pa.table({"src": [1], "dst": ["x"], "t": [0]}), tmp_path / "b.parquet")
    assert "same type in every file" in rejection(tmp_path)


def test_integer_widths_may_differ_between_files(tmp_path: Path) -> None:
    pq.write_table(pa.table({"src": pa.array([1], pa.int32()), "dst": [2], "t": [0]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"src": [2**40], "dst": [1], "t": [1.5]}), tmp_path / "b.parquet")
    assert_same(read_events(tmp_path), EventStream.from_arrays([1, 2**40], [2, 1], [0, 1.5]))


def test_truncated_parquet_is_rejected(tmp_path: Path) -> None:
    path = as_parquet(seven(), tmp_path)
    data = path.read_bytes()
    for size in (4, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:size])
        assert str(path) in rejection(path)


def test_far_more_rows_than_bytes_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, same = tmp_path / "same.parquet", np.ones(1_000_000, np.int64)
    pq.write_table(pa.table({"src": same, "dst": same, "t": same}), path)
    assert len(read_events(path)) == 1_000_000
    monkeypatch.setattr(parquet, "size_limit", lambda size: 100 * size)
    with pytest.raises(DataError, match=r"same\.parquet: .*decompression bomb"):
        read_events(path)
