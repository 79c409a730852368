"""The service under load."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from contig.benchmarks import serving
from contig.benchmarks.bench import Bench
from contig.benchmarks.environment import MissingPackage
from contig.live import Engine
from contig.serve import packages


def test_events_and_queries_are_timed(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fastapi", reason="needs the extra serve")
    from contig.serve.server import running
    from contig.serve.settings import ServeSettings

    accepted = []

    @contextmanager
    def in_this_process(run: Path) -> Iterator[str]:
        engine = Engine.open(tmp_path / "live", run, device="cpu")
        with running(engine, ServeSettings(port=0)) as url:
            yield url
            accepted.append(engine.status().live_events)

    monkeypatch.setattr(serving, "_service", in_this_process)
    monkeypatch.setattr(serving, "MODEL", "contig")
    rows = list(serving.measure_serve(bench))
    assert [row.what.partition(",")[0] for row in rows] == [
        "a durable event",
        *["an embedding"] * 2,
        *["the best 10 of 17"] * 2,
    ]
    assert [row.what.split(", ")[1] for row in rows[1:]] == ["p50", "p99"] * 2
    assert all(row.ours is not None and row.ours > 0 for row in rows)
    assert rows[1].ours <= rows[2].ours
    assert accepted[0] >= 100 + bench.settings.served


def test_a_missing_extra_is_named(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "find_spec", lambda name: None)
    with pytest.raises(MissingPackage, match=r"contig\[serve\]"):
        next(serving.measure_serve(bench))
