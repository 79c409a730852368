"""Scopes are compared on graphs of the sizes that the settings allow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from contig.benchmarks import scopes
from contig.benchmarks.bench import Bench


def test_each_size_is_compared_with_each_other_scope(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scopes, "NODES", (60, 200, 5000))
    small = Bench(bench.data, replace(bench.settings, events=2000))
    rows = list(scopes.measure_scopes(small))
    assert [(row.what.rpartition(", ")[2], row.peer_name) for row in rows] == [
        (f"{nodes} nodes", f"ours, scope {scope}") for nodes in (60, 200) for scope in ("pair", "all")
    ]
    assert all(row.ratio is not None and row.ratio > 0 for row in rows)
