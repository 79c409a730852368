"""Indexing and appending."""

from __future__ import annotations

import pytest

from contig.benchmarks.bench import Bench
from contig.benchmarks.index import measure_append, measure_index
from contig.data.synthetic import synthetic
from contig.history import History


def test_the_size_is_that_of_the_index_per_event(bench: Bench) -> None:
    build, size = measure_index(bench)
    assert build.what == "build the index of 3,000 events"
    assert size.ours == pytest.approx(History.from_stream(synthetic(3000)).nbytes() / 3000)
    assert (size.unit, size.ratio) == ("bytes/event", None)


def test_appending_takes_500_calls_or_the_whole_stream(bench: Bench) -> None:
    rows = [row.what for row in measure_append(bench)]
    assert rows == [
        "append 500 events, 1 per call",
        "append 1,500 events, 200 per call",
        "append 1,500 events, 10,000 per call",
    ]
