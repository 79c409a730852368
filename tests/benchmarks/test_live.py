"""The engine under load."""

from __future__ import annotations

import pytest

from contig.benchmarks import live
from contig.benchmarks.bench import Bench
from contig.benchmarks.random_reads import random_read


def test_events_queries_and_memory_are_measured(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MODEL", "contig")
    monkeypatch.setattr(live, "READ_SECONDS", 1.0)
    rows = list(live.measure_live(bench))
    assert [row.what.partition(",")[0] for row in rows] == [
        "take in an event durably",
        "embed a node while events arrive",
        "the best ten of 17 destinations while events arrive",
        "memory of an event",
        "take in an event durably among 200 nodes",
        "take in an event durably among 2",
    ]
    assert all(row.ours is not None for row in rows)
    assert f"over {10 * bench.settings.served:,} events" in rows[3].what


def test_a_random_read_takes_some_time() -> None:
    assert 0 < random_read(2**16) < 1e-3
