from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contig.data import companions
from contig.data.companions import companion_features
from contig.errors import DataError

TABLE = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], np.float32)


def write(path: Path, **arrays: Any) -> Path:
    np.savez_compressed(path, **arrays)
    return path


def test_a_code_book_is_looked_up(tmp_path: Path) -> None:
    path = write(tmp_path / "book.npz", table=TABLE, index=np.array([1, 0, 1, 1], np.uint8))
    assert companion_features(path, 4).tolist() == [[4, 5, 6], [1, 2, 3], [4, 5, 6], [4, 5, 6]]


def test_a_single_array_has_one_row_for_each_event(tmp_path: Path) -> None:
    assert companion_features(write(tmp_path / "one.npz", rating=[-3, 7]), 2).tolist() == [[-3], [7]]


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"table": TABLE, "index": np.array([0, -1])}, "index is not in 0..2"),
        ({"table": TABLE, "index": np.array([0, 2])}, "index is not in 0..2"),
        ({"table": TABLE, "index": np.array([True, False])}, "an index of bool"),
        ({"table": TABLE, "index": np.array([0.0, 1.0])}, "an index of float64"),
        ({"table": TABLE, "index": np.array([0, 1, 1])}, "3 rows for 2 events"),
        ({"table": TABLE[[0, 1, 1]]}, "3 rows for 2 events"),
        ({"a": np.zeros(2), "b": np.zeros(2)}, "expected the arrays table and index"),
        ({"a": np.array([1.0, np.nan])}, "feature 0, nan, is not a finite float32"),
        ({"a": np.array([1e300, 0.0])}, "feature 0, 1e[+]300, is not a finite float32"),
        ({"a": np.array(["1", "2"])}, "not one row of numbers per event"),
        ({"a": np.array([1j, 2])}, "not one row of numbers per event"),
        ({"a": np.array(3.0)}, "not one row of numbers per event"),
        ({"a": np.array([{}, 1], dtype=object)}, "announces object values"),
    ],
)
def test_arrays_that_are_no_features_are_rejected(arrays: Any, reason: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=reason) as raised:
        companion_features(write(tmp_path / "bad.npz", **arrays), 2)
    assert "bad.npz" in str(raised.value)


def test_a_header_that_announces_more_than_the_file_holds_is_rejected(tmp_path: Path) -> None:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"shape": (1 << 40,), "fortran_order": False, "descr": "<f8"})
    path = tmp_path / "large.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", file.getvalue())
    with pytest.raises(DataError, match="announces float64 values"):
        companion_features(path, 2)


def test_a_decompression_bomb_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "bomb.npz", a=np.zeros(300_000))
    assert companion_features(path, 300_000).shape == (300_000, 1)
    monkeypatch.setattr(companions, "size_limit", lambda size: 100 * size)
    with pytest.raises(DataError, match="decompression bomb"):
        companion_features(path, 300_000)


def test_damaged_files_are_read_or_rejected(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    path = write(tmp_path / "book.npz", table=TABLE, index=rng.integers(0, 2, 40))
    intact, good = path.read_bytes(), companion_features(path, 40)
    rejected = 0
    for _ in range(300):
        damaged = bytearray(intact)
        for at in rng.integers(0, len(intact), rng.integers(1, 4)):
            damaged[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged[: len(damaged) - int(rng.integers(0, 3)) * int(rng.integers(0, 200))])
        try:
            assert np.array_equal(companion_features(path, 40), good)  # archives have checksums
        except DataError:
            rejected += 1
    assert rejected > 200
