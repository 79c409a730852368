"""Checksums of a run's files: damage is noticed, failed replacements are not damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from contig.errors import RunError
from contig.runs.checksums import Checksums

NAME = "weights.pt"


class DiskFull(OSError):
    """What a full disk does."""


def write(folder: Path, content: bytes, *, fails: bool = False) -> None:
    """Replace the file, or fail between the new checksum and the new file."""
    try:
        with Checksums(folder).replacing(NAME) as part:
            part.write_bytes(content)
            if fails:  # record as `replacing` does, and fail before the file is in its place
                part.write_bytes(content + b"!")
                Checksums(folder).record({NAME: "0" * 64 if content == b"two" else "1" * 64})
                raise DiskFull
    except DiskFull:
        pass


def test_a_file_matches_what_was_written(tmp_path: Path) -> None:
    write(tmp_path, b"one")
    Checksums(tmp_path).verify(NAME)
    (tmp_path / NAME).write_bytes(b"0ne")
    with pytest.raises(RunError, match=r"weights\.pt is damaged"):
        Checksums(tmp_path).verify(NAME)


def test_failed_replacements_leave_the_file_valid(tmp_path: Path) -> None:
    write(tmp_path, b"one")
    for content in (b"two", b"three", b"two"):
        write(tmp_path, content, fails=True)
        assert (tmp_path / NAME).read_bytes() == b"one"
        Checksums(tmp_path).verify(NAME)
    write(tmp_path, b"four")
    Checksums(tmp_path).verify(NAME)


def test_earlier_versions_are_forgotten(tmp_path: Path) -> None:
    """A file that is put back from two versions ago is not the run's."""
    for content in (b"one", b"two", b"three"):
        write(tmp_path, content)
    (tmp_path / NAME).write_bytes(b"one")
    with pytest.raises(RunError, match="damaged"):
        Checksums(tmp_path).verify(NAME)
