"""Arrow files, written in every way that Arrow writes tables."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import feather

from contig.data.readers import arrow, read_events
from contig.errors import DataError

TABLE = pa.table({"src": [7, 2**40, 7], "dst": ["a", "b", "c"], "t": [1.5, 2.0, 4.0]})


def written(path: Path, how: str) -> Path:
    if how == "stream":
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, TABLE.schema) as writer:
            writer.write_table(TABLE, max_chunksize=2)
    else:
        feather.write_feather(TABLE, path, compression=how, chunksize=2)
    return path


@pytest.mark.parametrize("suffix", [".arrow", ".feather"])
@pytest.mark.parametrize("how", ["uncompressed", "lz4", "zstd", "stream"])
def test_events_are_read(how: str, suffix: str, tmp_path: Path) -> None:
    stream = read_events(written(tmp_path / f"x{suffix}", how))
    labels = stream.ids.labels
    assert labels[stream.src].tolist() == ["7", str(2**40), "7"]
    assert labels[stream.dst].tolist() == ["a", "b", "c"]
    assert stream.t.tolist() == [1.5, 2.0, 4.0]


def test_whole_numbers_are_ids(tmp_path: Path) -> None:
    feather.write_feather(
        TABLE.set_column(1, "dst", pa.array([3, 4, 2**40], pa.uint64())), tmp_path / "x.arrow"
    )
    stream = read_events(tmp_path / "x.arrow")
    assert stream.ids.labels.tolist() == [3, 4, 7, 2**40]
    assert not stream.bipartite


@pytest.mark.parametrize("cut", [0, 3, 60, -40])
def test_damaged_files_are_refused(cut: int, tmp_path: Path) -> None:
    path = written(tmp_path / "x.feather", "lz4")
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(DataError, match=r"x\.feather"):
        read_events(path)


def test_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "size_limit", lambda size: 40)
    with pytest.raises(DataError, match="decompression bomb"):
        read_events(written(tmp_path / "x.arrow", "lz4"))
