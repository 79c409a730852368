"""Damaged files of every format give a valid stream or a ContigError, never another exception."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.damaged_files import FORMATS, ROWS, check_valid, mutated

from contig.data.readers import read_events
from contig.errors import ContigError

MUTATIONS = 400
CHECKED = ("events.csv.gz", "features.npz")  # these formats have checksums


@pytest.mark.parametrize("name", FORMATS)
def test_the_intact_file_is_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(FORMATS[name]())
    check_valid(path)
    assert path.suffix == ".npz" or len(read_events(path)) == ROWS


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_files_are_read_or_rejected(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    data, path = FORMATS[name](), tmp_path / name
    rejections = []
    for _ in range(MUTATIONS):
        path.write_bytes(mutated(data, rng))
        try:
            check_valid(path)
        except ContigError as error:
            rejections.append(str(error))
    assert [text for text in rejections if name not in text] == []  # each names its file
    assert len(rejections) > MUTATIONS // 20, "hardly anything was rejected: the mutations do no damage"
    assert name in CHECKED or len(rejections) < MUTATIONS, "nothing was read: the test proves nothing"
