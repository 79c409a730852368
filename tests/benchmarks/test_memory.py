"""Peak memory, each side in its own process."""

from __future__ import annotations

import pytest

from contig.benchmarks import memory
from contig.benchmarks.bench import Bench


def test_the_peak_counts_the_whole_process(bench: Bench) -> None:
    assert memory.training_peak(bench.stream, bench.settings, "cpu", "tgn") > 50e6


def test_both_models_are_compared_with_the_peer(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    peaks = {None: 900, "contig": 300, "tgn": 450}
    monkeypatch.setattr(memory, "in_new_process", lambda work, *arguments: peaks[arguments[-1]])
    rows = list(memory.measure_memory(bench))
    assert [(row.what.split()[-1], row.ours, row.ratio) for row in rows] == [
        ("contig", 300, 3.0),
        ("tgn", 450, 2.0),
    ]
