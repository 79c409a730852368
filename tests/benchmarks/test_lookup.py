"""All lookups find the same neighbors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from contig.benchmarks import lookup
from contig.benchmarks.bench import Bench
from contig.data.events import EventStream
from contig.history import History


def test_the_loop_finds_what_the_history_finds(stream_without_ties: EventStream) -> None:
    stream = stream_without_ties
    history, finder = History.from_stream(stream), lookup.LoopFinder(stream)
    queries = lookup.training_queries(stream, size=60, calls=4)
    assert len(queries) == 4
    assert all(len(nodes) == 60 for nodes, _ in queries)
    for nodes, times in queries:
        answer = history.before(torch.from_numpy(nodes), torch.from_numpy(times), 5)
        padded = [np.where(answer.mask, x, 0)[:, ::-1] for x in answer[:3]]  # the loop has the oldest first
        assert answer.mask.any()
        assert all(np.array_equal(a, b) for a, b in zip(padded, finder.before(nodes, times, 5), strict=True))


def test_the_loader_finds_what_the_history_finds(stream_without_ties: EventStream) -> None:
    pytest.importorskip("torch_geometric")
    stream = stream_without_ties
    batches = lookup.lookup_batches(stream, size=6)  # no larger than k, or the loader mixes up events
    peer = lookup.run_loader(stream.num_nodes, batches, k=6)
    whole = lookup.run_history(History.from_stream(stream), batches, k=6, append=False)
    empty = History.empty(stream.num_nodes, time_dtype=torch.int64)
    growing = lookup.run_history(empty, batches, k=6, append=True)
    assert len(peer) == len(whole) == len(growing) == 22
    for a, b, c in zip(peer, whole, growing, strict=True):
        assert sorted(a.tolist()) == sorted(b.tolist()) == sorted(c.tolist())
    assert sum(len(x) for x in peer) > 500


def test_calls_larger_than_the_stream_are_left_out(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "QUERIES_PER_CALL", (90, 300, 2400))  # 800 of 1,500 events are too many
    rows = list(lookup.measure_lookup_loop(bench))
    assert [row.what for row in rows] == [f"look up 5 neighbors, {n} queries per call" for n in (90, 300)]
