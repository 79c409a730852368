"""The engine under load."""

from __future__ import annotations

import pytest

from contig.benchmarks import live, live_hour
from contig.benchmarks.bench import Bench
from contig.benchmarks.random_reads import random_read


def test_events_and_queries_are_measured(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MODEL", "contig")
    monkeypatch.setattr(live, "READ_SECONDS", 1.0)
    rows = list(live.measure_live(bench))
    assert [row.what.partition(",")[0] for row in rows] == [
        "take in an event durably",
        "embed a node while events arrive",
        "the best ten of 17 destinations while events arrive",
        "take in an event durably among 200 nodes",
        "take in an event durably among 2",
    ]
    assert all(row.ours is not None for row in rows)


def test_an_hour_is_measured(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (live, live_hour):
        monkeypatch.setattr(module, "MODEL", "contig")
    memory, cost = live_hour.measure_live_hour(bench)
    assert "over 12,000 events" in memory.what
    assert memory.unit == "bytes/event"
    assert "for 0 min of events" in cost.note
    assert cost.repeats == live_hour.PARTS


def test_memory_beyond_the_data_is_separated_from_growth_with_it() -> None:
    samples = [live_hour.Sample(*one, 0.5) for one in ((100, 40), (2**20 + 150, 90), (3 * 2**20 + 220, 160))]
    found = live_hour._memory(samples, 10)
    assert found.ours == (3 * 2**20 + 120) / 120
    assert found.note.startswith("data with its spare room: 1; beyond it 1 to 3 MB, in the end 3 MB")


def test_a_random_read_takes_some_time() -> None:
    assert 0 < random_read(2**16) < 1e-3
