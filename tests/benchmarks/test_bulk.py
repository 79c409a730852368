"""Bulk queries next to single ones."""

from __future__ import annotations

import pytest

from contig.benchmarks import bulk
from contig.benchmarks.bench import Bench
from contig.benchmarks.bulk import Cost


def test_every_bulk_query_is_compared_with_single_ones(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "MODEL", "contig")
    monkeypatch.setattr(bulk, "SINGLE", 3)
    rows = list(bulk.measure_bulk(bench))
    assert [row.what.partition(",")[0] for row in rows] == [
        "update with 72 events",
        "score 600 pairs at as many times",
        "the best 10 of 17 for all 60 sources",
        "embed all nodes at a past time",
        "embed all 77 nodes at an earlier time",
    ]
    assert [row.ratio is None for row in rows] == [False, False, False, True, False]
    assert all("s on the clock" in row.note for row in rows)


def test_single_calls_count_as_many_as_the_bulk_call_answers() -> None:
    row = bulk._compared("x", Cost(2.0, 9.0), [Cost(0.5, 1.0), Cost(1.5, 1.0)], 10)
    assert (row.ours, row.peer, row.ratio) == (2, 10, 5)
    assert row.note == "9.0 s on the clock; 2 single calls were timed"
