"""``contig trajectory``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyarrow import csv, feather
from support.commands import SET, START, Answer

from contig import plots
from contig.runs.run import Run

READERS = {".csv": csv.read_csv, ".parquet": pq.read_table, ".arrow": feather.read_table}

pytestmark = pytest.mark.usefixtures("fast_training", "here")


def test_trajectory_writes_numbers_and_a_figure(
    run: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Any] = []
    draw = plots.trajectory
    monkeypatch.setattr(plots, "trajectory", lambda *args: drawn.append(args) or draw(*args))
    span = ["--from", "2024-05-02", "--to", "2024-05-08T12:00", "--points", 11]
    answer = Answer(
        "trajectory", run, "--node", "n9", "--side", "dst", *span, "--out", "p.parquet", "--plot", "p.png"
    )
    assert answer.code == 0, answer.err
    times = np.linspace(START + 86_400, START + 7.5 * 86_400, 11)
    opened = Run.open(run)
    expected = opened.trajectory("n9", times, side="dst").embeddings
    table = pq.read_table("p.parquet")
    assert table["t"].to_pylist() == times.tolist()
    assert np.array_equal(np.array(table["embedding"].to_pylist(), np.float32), expected)
    assert (here / "p.png").read_bytes()[:4] == b"\x89PNG"
    ((_, _, node, at, embeddings, title),) = drawn
    assert (node, title) == (opened.stream.ids.find("n9", "dst"), "Node n9 in visits.csv")
    assert np.array_equal(at, times)
    assert np.array_equal(embeddings, expected)


def test_the_default_span_is_the_last_events(run: Path) -> None:
    """Equally many points between any two events, and both sides of every jump."""
    assert Answer("trajectory", run, "--node", "n2", "--points", 66, "--out", "p.parquet").code == 0
    times = np.array(pq.read_table("p.parquet")["t"].to_pylist())
    opened = Run.open(run)
    stream, node = opened.stream, opened.stream.ids.find("n2")
    met = stream.t[(stream.src == node) | (stream.dst == node)][-11:]
    assert len(np.unique(met)) == 11
    usual = np.median(np.diff(met[1:]))
    start = max(met[0], met[1] - usual)
    assert times[[0, -1]] == pytest.approx([start, met[-1] + usual])
    just_after = np.nextafter(met[1:].astype(float), np.inf)
    assert np.histogram(times, [start, *just_after, times[-1]])[0].tolist() == [6] * 11
    for event in met[1:]:
        before, after = times[times <= event][-1], times[times > event][0]
        assert before == event
        assert after - event < 1e-5
        embedded = opened.embed(["n2"], at=event), opened.embed(["n2"], at=after)
        assert not np.allclose(*embedded, atol=1e-3)


def test_half_a_span_extends_to_the_end_of_the_stream(run: Path) -> None:
    t = Run.open(run).stream.t
    for span, ends in (
        (["--from", "2024-05-02"], (START + 86_400, t[-1])),
        (["--to", "2024-05-04"], (t[0], START + 3 * 86_400)),
    ):
        assert Answer("trajectory", run, "--node", "n2", *span, "--points", 3, "--out", "p.parquet").code == 0
        assert pq.read_table("p.parquet")["t"].to_pylist() == np.linspace(*ends, 3).tolist()


def test_a_node_with_one_event_is_shown_over_the_whole_stream(here: Path) -> None:
    rows = [f"{i % 7},{10 + i % 5},{i}\n" for i in range(90)]
    (here / "x.csv").write_text("src,dst,t\n" + "".join([*rows[:40], "99,10,39\n", *rows[40:]]))
    assert Answer("train", "x.csv", "--epochs", 1, "--out", "run", *SET).code == 0
    assert Answer("trajectory", "run", "--node", "99", "--points", 3, "--out", "p.parquet").code == 0
    assert pq.read_table("p.parquet")["t"].to_pylist() == [0, 44.5, 89]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "Specify --plot PATH.png"),
        (["--plot", "x.gif"], "Unknown image format 'gif'"),
        (["--out", "x.xls"], "Unknown file format '.xls'"),
        (["--out", "x.parquet", "--from", "2024-05-03", "--to", "2024-05-02"], "must end after it starts"),
        (["--out", "x.parquet", "--points", "1"], "--points"),
    ],
)
def test_trajectory_refuses(options: list[str], message: str, run: Path, here: Path) -> None:
    answer = Answer("trajectory", run, "--node", "n2", *options)
    assert message in answer.refusal
    assert list(here.iterdir()) == []
