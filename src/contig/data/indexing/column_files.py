"""Columns in ``.npy`` files that are written piece by piece."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

import numpy as np

from contig.data.columns import Array
from contig.files import disk_errors


class ColumnFile:
    """A ``.npy`` file of a known shape, written from its first row to its last.

    Rows are written with ordinary writes: on a full disk those fail with an error, where a write through a
    memory mapping would kill the process.
    """

    def __init__(self, path: Path, dtype: np.dtype, shape: tuple[int, ...]) -> None:
        self.path, self.dtype, self.shape = path, dtype, shape
        self._row_bytes = dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))
        self._file: IO[bytes] | None = None

    def open(self, rows: int) -> None:
        """Continue after this many rows; whatever an interrupted process wrote after them is dropped."""
        with disk_errors(self.path):
            if not rows or not self.path.exists():
                self.path.write_bytes(b"")
            self._file = self.path.open("r+b")
            header = {"descr": np.lib.format.dtype_to_descr(self.dtype), "fortran_order": False}
            np.lib.format.write_array_header_1_0(self._file, {**header, "shape": self.shape})
            self._file.truncate(self._file.tell() + rows * self._row_bytes)
            self._file.seek(0, os.SEEK_END)

    def append(self, rows: Array) -> None:
        """Write the next rows."""
        assert self._file is not None
        with disk_errors(self.path):
            # not tofile, whose error does not say why the rest could not be written
            self._file.write(np.ascontiguousarray(rows, self.dtype).data)

    def sync(self) -> None:
        """Wait until all rows so far are on the disk."""
        assert self._file is not None
        with disk_errors(self.path):
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        if self._file is not None:
            with disk_errors(self.path):
                self._file.close()
