"""Both sides read the same events."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from contig.benchmarks.reading import write_events
from contig.data.events import EventStream
from contig.data.readers import read_events

pd = pytest.importorskip("pandas")


def test_both_sides_read_the_same_events(stream_without_ties: EventStream, tmp_path: Path) -> None:
    paths = write_events(stream_without_ties, tmp_path)
    for path, read in zip(paths, (pd.read_csv, pd.read_parquet), strict=True):
        stream, frame = read_events(path), read(path)
        assert np.array_equal(stream.ids.labels[stream.src], frame["src"])
        assert np.array_equal(stream.ids.labels[stream.dst], frame["dst"])
        assert np.array_equal(stream.t, frame["t"])
