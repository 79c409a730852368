"""What the data benchmark compares must be the same answers; how fast they come is not tested."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from contig.data.events import EventStream
from contig.data.ids import NodeIds
from contig.data.readers import read_events
from contig.history import History

pytest.importorskip("torch_geometric")
pd = pytest.importorskip("pandas")

SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "data.py"


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_data", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def stream_without_ties(events: int = 130, users: int = 9, items: int = 14) -> EventStream:
    """Distinct times, so that "before this time" and "before this event" are the same."""
    rng = np.random.default_rng(0)
    return EventStream(
        src=rng.integers(0, users, events),
        dst=users + rng.integers(0, items, events),
        t=np.cumsum(rng.integers(1, 9, events)),
        ids=NodeIds(np.arange(users + items)),
    )


def test_both_read_the_same_events(bench: ModuleType, tmp_path: Path) -> None:
    for path, read in zip(
        bench.write_events(stream_without_ties(), tmp_path), (pd.read_csv, pd.read_parquet), strict=True
    ):
        stream, frame = read_events(path), read(path)
        assert np.array_equal(stream.ids.labels[stream.src], frame["src"])
        assert np.array_equal(stream.ids.labels[stream.dst], frame["dst"])
        assert np.array_equal(stream.t, frame["t"])


def test_the_loop_finds_what_the_history_finds(bench: ModuleType) -> None:
    stream = stream_without_ties()
    history, finder = History.from_stream(stream), bench.LoopFinder(stream)
    queries = bench.batch_queries(stream, size=60, calls=4)
    assert len(queries) == 4
    assert all(len(nodes) == 60 for nodes, _ in queries)
    for nodes, times in queries:
        answer = history.before(torch.from_numpy(nodes), torch.from_numpy(times), 5)
        padded = [np.where(answer.mask, x, 0)[:, ::-1] for x in answer[:3]]  # the loop has the oldest first
        assert answer.mask.any()
        assert all(np.array_equal(a, b) for a, b in zip(padded, finder.before(nodes, times, 5), strict=True))


def test_the_loader_finds_what_the_history_finds(bench: ModuleType) -> None:
    stream = stream_without_ties()
    parts = bench.batches(stream, size=6)  # at most k events of a node in a batch: more it would mix up
    peer = bench.run_loader(stream, parts, k=6)
    whole = bench.run_history(History.from_stream(stream), parts, k=6, append=False)
    growing = bench.run_history(
        History.empty(stream.num_nodes, time_dtype=torch.int64), parts, k=6, append=True
    )
    assert len(peer) == len(whole) == len(growing) == 22
    for a, b, c in zip(peer, whole, growing, strict=True):
        assert sorted(a.tolist()) == sorted(b.tolist()) == sorted(c.tolist())
    assert sum(len(x) for x in peer) > 500


def test_the_report_holds_every_measurement(
    bench: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CONTIG_DATA", raising=False)
    monkeypatch.setattr(bench, "lookup_stream", stream_without_ties)
    monkeypatch.setattr(bench, "CALLS", {30: 2, 60: 1})
    monkeypatch.setattr(sys, "argv", ["bench/data.py", "--json", "--events", "300", "--repeats", "1"])
    bench.main()
    report = json.loads(capsys.readouterr().out)
    assert {"command", "cpu", "load", "versions"} <= report.keys()
    rows = report["measurements"]
    assert [row["unit"] for row in rows].count("queries/s") == 2
    assert len(rows) == 11
    for row in rows:
        low, high = row["ours_range"]
        assert 0 < low <= row["ours"] <= high
        if row["peer"] is not None:
            assert row["ratio"] == pytest.approx(row["ours"] / row["peer"])  # one repeat

    monkeypatch.setattr(sys, "argv", ["bench/data.py", "--events", "300", "--repeats", "1"])
    bench.main()
    table = capsys.readouterr().out
    assert all(row["name"] in table for row in rows)
