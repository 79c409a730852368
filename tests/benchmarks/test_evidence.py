"""The cost of evidence: what is measured is what a model uses."""

from __future__ import annotations

import pytest

from contig.benchmarks import evidence
from contig.benchmarks.bench import Bench
from contig.history import History


def test_a_step_is_compared_with_contig(bench: Bench) -> None:
    (row,) = evidence.measure_pair_step(bench)
    assert row.peer_name == "contig"
    assert row.ratio is not None
    assert row.ours is not None
    assert row.ours > 0


def test_all_test_events_count_although_a_sample_is_ranked(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranked: list[int] = []
    monkeypatch.setattr(evidence.Ranker, "__call__", lambda _, events: ranked.append(len(events)))
    monkeypatch.setattr(evidence, "repeat", lambda work, *_: [work() or 2.0])
    everything, _ = evidence.measure_pair_ranking(bench)
    assert ranked == [bench.settings.ranked]
    assert everything.ours == 2.0 * len(bench.data.split.test) / bench.settings.ranked


def test_the_size_is_that_of_the_arrays(bench: Bench) -> None:
    rows = [row for row in evidence.measure_evidence(bench) if row.unit == "bytes/event"]
    found = evidence.Evidence(History.from_stream(bench.stream), evidence.SPEC)
    sizes = [sum(a.nbytes for a in keyed.arrays().values()) for keyed in (found.events, found.transitions)]
    assert [row.ours for row in rows] == [size / len(bench.stream) for size in sizes]
