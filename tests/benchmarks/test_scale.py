import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from contig.benchmarks import scale
from contig.benchmarks.scale import Costs, Trial, exponents, main, table, write_files

pytest.importorskip("duckdb")


def costs(events, cost):
    return Costs(
        events=events,
        nodes=events // 10,
        index_seconds=cost,
        index_peak=7 * events,
        bytes_per_event=59.0,
        prepare_seconds=cost**2,
        lookup_us=1.0,
        reads_us=1.0,
        step_us=1.0,
        live_us=1.0,
        use_peak=1 << 30,
    )


def test_exponents_are_those_of_powers():
    found = exponents([costs(n, 3 * n**0.8) for n in (1_000, 10_000, 1_000_000)])
    assert found["index_seconds"] == pytest.approx(0.8)
    assert found["prepare_seconds"] == pytest.approx(1.6)
    assert found["index_peak"] == pytest.approx(1)
    assert found["lookup_us"] == pytest.approx(0)


def test_one_size_has_no_exponents():
    assert "exponent" not in table([costs(1_000, 2.0)])


def test_files_hold_every_event_with_as_many_nodes_as_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(scale, "EVENTS_PER_FILE", 3_000)
    write_files(tmp_path, 7_000, events_per_node=2)
    parts = [pq.read_table(path) for path in sorted(tmp_path.glob("*.parquet"))]
    assert [len(part) for part in parts] == [3_000, 3_000, 1_000]
    src, dst, t = (np.concatenate([part[name].to_numpy() for part in parts]) for name in ("src", "dst", "t"))
    assert src.min() >= 0
    assert src.max() < 1_750 <= dst.min()
    assert dst.max() < 3_500
    assert np.abs(t - np.arange(7_000)).max() <= scale.DISORDER
    assert (np.diff(t) < 0).any()  # so that an index has something to sort


def test_files_that_are_there_are_kept(tmp_path):
    write_files(tmp_path, 1_000)
    (path,) = tmp_path.glob("*.parquet")
    before = path.stat().st_mtime_ns
    write_files(tmp_path, 1_000)
    assert path.stat().st_mtime_ns == before


def test_clock_counts_waiting_only_where_it_is_asked_to(monkeypatch):
    monkeypatch.setattr(scale.time, "process_time", lambda: 1.0)
    monkeypatch.setattr(scale.time, "perf_counter", lambda: 2.0)
    assert (Trial().clock(), Trial(elapsed=True).clock()) == (1.0, 2.0)


def test_two_sizes_are_measured_with_the_options_of_the_run(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(scale, "in_new_process", lambda work, *arguments: work(*arguments))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # which the benchmark sets
    sessions, real = [], scale.Session
    monkeypatch.setattr(scale, "Session", lambda *given: sessions.append(real(*given)) or sessions[-1])
    for name, value in {"QUERIES": 50, "LOOKUP_ROUNDS": 1, "WARM_STEPS": 1, "TIMED_STEPS": 2}.items():
        monkeypatch.setattr(scale, name, value)
    monkeypatch.setattr(scale, "LIVE_BATCHES", 5)
    given = ["3000", "6000", "--folder", str(tmp_path), "--events-per-node", "4"]
    main(
        [*given, "--set", "dim=6", "--set", "time_dim=4", "--set", "graph_in=disk", "--set", "batch_size=50"]
    )
    first, second = json.loads(
        (tmp_path / "costs-contig-dim=6-time_dim=4-graph_in=disk-batch_size=50.json").read_text()
    )
    assert (first["events"], second["events"]) == (3_000, 6_000)
    assert first["nodes"] == len({*_ids(tmp_path / "3000-4-per-node")})
    assert [session.state.on_disk for session in sessions] == [True, True]
    assert [session.config.train.batch_size for session in sessions] == [50, 50]
    assert [session.state["h"].shape[1] for session in sessions] == [6, 6]
    printed = capsys.readouterr().out
    assert printed.count("| 3,000 |") == 2
    assert "| exponent |" in printed


def _ids(folder):
    events = pq.read_table(folder)
    yield from events["src"].to_pylist()
    yield from events["dst"].to_pylist()
