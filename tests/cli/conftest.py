"""Fixtures of the tests of commands."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.commands import COLUMNS, SET, START, Answer
from support.trained import fast_training

from contig.cli import console


@pytest.fixture(autouse=True)
def fresh_terminal() -> None:
    """Consoles as wide as the test says, not as the first test of all said."""
    console.out.cache_clear()
    console.err.cache_clear()


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty working folder and a wide terminal."""
    monkeypatch.delenv("CONTIG_DEBUG", raising=False)
    monkeypatch.setenv("COLUMNS", "130")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dated visits of ten people to eight pages, which share some of their names."""
    rng = np.random.default_rng(6)
    path = tmp_path_factory.mktemp("data") / "visits.csv"
    seconds = np.sort(rng.integers(0, 10 * 86_400, 280))
    dates = [f"{datetime.fromtimestamp(START + int(s), UTC):%Y-%m-%dT%H:%M:%SZ}" for s in seconds]
    lines = [f"n{rng.integers(0, 10)},n{rng.integers(7, 15)},{date}" for date in dates]
    path.write_text("who,page,when\n" + "\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="session")
def run(visits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that the command trained."""
    out = tmp_path_factory.mktemp("runs") / "visits"
    command = ["train", visits, *COLUMNS, "--bipartite", "--out", out, "--epochs", 2, "--seed", 4, *SET]
    with fast_training():
        assert Answer(*command).code == 0
    return out


@pytest.fixture
def isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty working directory, no data folder, an empty cache, no network, a wide terminal."""
    monkeypatch.delenv("CONTIG_DATA", raising=False)
    monkeypatch.delenv("CONTIG_DEBUG", raising=False)
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("CONTIG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "100")
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def five_visits(isolated: Path) -> Path:
    """Five events in time order, with a column that is not used."""
    table = {"src": list("abaeb"), "dst": list("xyyxy"), "t": [3, 10, 10, 21, 40]}
    more = {"label": [0, 0, 1, 0, 0], "f1": [1.0] * 5, "mood": ["ok"] * 5}
    pq.write_table(pa.table({**table, **more}), isolated / "visits.parquet")
    return isolated / "visits.parquet"
