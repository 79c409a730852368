"""``contig score``."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyarrow import csv, feather
from support.commands import COLUMNS, START, Answer, seconds

from contig.runs.run import Run

READERS = {".csv": csv.read_csv, ".parquet": pq.read_table, ".arrow": feather.read_table}

pytestmark = pytest.mark.usefixtures("fast_training", "here")


PAIRS = "page,who,note,when\nn9,n3,a,2024-05-09\nn14,n8,b,2024-05-03T12:00\nn7,n0,c,2025-01-01\n"
SECONDS = [START + 8 * 86_400, START + 2.5 * 86_400, 1_735_689_600]


def test_a_file_without_rows_gives_one_without_rows(run: Path, here: Path) -> None:
    (here / "quiet.csv").write_text("who,page,when\n")
    (here / "scores.csv").write_text("those of yesterday\n")
    answer = Answer("score", run, "quiet.csv", *COLUMNS, "--out", "scores.csv")
    assert answer.code == 0
    assert "quiet.csv: there are no events; nothing is scored." in answer.err
    assert "wrote scores.csv (0 scores)" in answer.err
    header = '"src","dst","t","score","probability","surprise","last_event","cold_start"'
    assert (here / "scores.csv").read_text() == f"{header}\n"


@pytest.mark.parametrize("name", ["scores.csv", "deep/scores.parquet", "scores.arrow"])
def test_score_writes_a_row_for_each_pair_in_their_order(name: str, run: Path, here: Path) -> None:
    (here / "pairs.csv").write_text(PAIRS)
    answer = Answer("score", run, "pairs.csv", *COLUMNS, "--out", name)
    assert answer.code == 0, answer.err
    found = READERS[Path(name).suffix](name)
    opened = Run.open(run)
    expected = opened.score(["n3", "n8", "n0"], ["n9", "n14", "n7"], SECONDS)
    columns = ["src", "dst", "t", "score", "probability", "surprise", "last_event", "cold_start"]
    assert found.column_names == columns
    assert (found["src"].to_pylist(), seconds(found["t"].to_pylist())) == (["n3", "n8", "n0"], SECONDS)
    assert found["score"].to_pylist() == pytest.approx(expected.score.tolist())
    assert found["surprise"].to_pylist() == pytest.approx(np.log2(1 + np.exp(-expected.score)).tolist())
    known = [max(t for t in opened.stream.t.tolist() if t < when) for when in SECONDS]
    assert seconds(found["last_event"].to_pylist()) == known
    assert f"wrote {name} (3 scores)" in answer.err


def test_python_scores_a_file_as_the_command_does(visits: Path, here: Path) -> None:
    """With a model whose scores depend on when states are read."""
    command = ["train", visits, *COLUMNS, "--bipartite", "--out", "run", "--epochs", 1, "--model", "jodie"]
    assert Answer(*command, "--set", "dim=6", "--set", "batch_size=30").code == 0
    run, opened = "run", Run.open("run")
    labels, part = opened.stream.ids.labels, opened.stream[100:140]
    rows = zip(labels[part.src], labels[part.dst], (part.t + 1).tolist(), strict=True)
    (here / "pairs.csv").write_text("who,page,when\n" + "".join(f"{s},{d},{t}\n" for s, d, t in rows))
    scores = []
    for as_of in ("", "batch", "event"):
        chosen, named = (["--as-of", as_of], {"as_of": as_of}) if as_of else ([], {})
        assert Answer("score", run, "pairs.csv", *COLUMNS, *chosen, "--out", "x.parquet").code == 0
        written = pq.read_table("x.parquet")
        found = opened.score_pairs("pairs.csv", src="who", dst="page", t="when", **named)
        assert found.table().column_names == written.column_names
        for name in ("src", "dst", "cold_start"):
            assert getattr(found, name).tolist() == written[name].to_pylist()
        assert found.t.tolist() == seconds(written["t"].to_pylist())
        assert found.score.tolist() == pytest.approx(written["score"].to_pylist(), rel=1e-5, abs=1e-6)
        scores.append(found.score)
    assert scores[0] == pytest.approx(scores[1], rel=1e-5)
    assert np.abs(scores[1] - scores[2]).max() > 1e-3


def test_times_are_written_as_dates_where_the_run_was_trained_on_dates(run: Path, here: Path) -> None:
    (here / "pairs.csv").write_text(PAIRS)
    for name in ("x.csv", "x.parquet"):
        assert Answer("score", run, "pairs.csv", *COLUMNS, "--out", name).code == 0
    rows = (here / "x.csv").read_text().splitlines()
    assert [row.split(",")[2] for row in rows[1:]] == [
        '"2024-05-09T00:00:00Z"',
        '"2024-05-03T12:00:00Z"',
        '"2025-01-01T00:00:00Z"',
    ]
    assert str(pq.read_table("x.parquet").schema.field("t").type).startswith("timestamp[")
    assert Answer("score", run, "x.csv", "--out", "again.csv").code == 0  # and can be read again
    assert (here / "again.csv").read_text() == (here / "x.csv").read_text()


def test_frames_have_timestamps_where_the_run_was_trained_on_dates(run: Path, here: Path) -> None:
    pandas = pytest.importorskip("pandas")
    shutil.copytree(run, "copy")
    opened, after = Run.open("copy"), "2024-05-20T12:00"
    opened.observe({"who": ["n3"], "page": ["n8"], "when": ["2024-05-19"]})
    lists = opened.recommend(["n3", "new"], k=2, at=after)
    frames = {
        "t": opened.score(["n3", "n0"], ["n9", "n7"], [after, after]).to_frame(),
        "at": lists.to_frame(),
    }
    for name, frame in [*frames.items(), ("at", lists[0].to_frame())]:
        assert set(frame[name]) == {pandas.Timestamp("2024-05-20T12:00", tz="UTC")}
        assert set(frame["last_event"]) == {pandas.Timestamp("2024-05-19", tz="UTC")}


def test_times_stay_numbers_where_the_run_was_trained_on_numbers(here: Path) -> None:
    rows = "".join(f"{n % 5},{7 + n % 3},{START + n * n}\n" for n in range(60))
    (here / "numbers.csv").write_text(f"src,dst,t\n{rows}")
    assert Answer("train", "numbers.csv", "--model", "recency", "--out", "run").code == 0
    assert Answer("score", "run", "numbers.csv", "--out", "x.csv").code == 0
    assert csv.read_csv("x.csv")["t"].to_pylist() == [START + n * n for n in range(60)]


def test_scores_at_the_pairs_own_times(run: Path, here: Path) -> None:
    (here / "pairs.csv").write_text(PAIRS)
    assert Answer("score", run, "pairs.csv", *COLUMNS, "--as-of", "event", "--out", "x.parquet").code == 0
    expected = [Run.open(run).score("n3", "n9", SECONDS[0]).score[0]]
    assert pq.read_table("x.parquet")["score"].to_pylist()[:1] == pytest.approx(
        expected, rel=1e-5
    )  # another batch, other last bits


def test_pairs_with_unknown_nodes_are_marked(run: Path, here: Path) -> None:
    (here / "pairs.csv").write_text(f"src,dst,t\nn1,n9,{START * 2}\nzed,n9,{START * 2}\n")
    before = Run.open(run).stream.num_nodes
    answer = Answer("score", run, "pairs.csv", "--out", "x.csv")
    assert "1 pair of 2 has a node without earlier events (column cold_start)" in answer.words
    assert csv.read_csv("x.csv")["cold_start"].to_pylist() == [False, True]
    assert Run.open(run).stream.num_nodes == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["odd.csv", "--out", "x.csv"], "no column is recognized for"),
        (["pairs.csv", *COLUMNS, "--out", "x.json"], "Unknown file format '.json'"),
        (["pairs.csv", *COLUMNS, "--out", "x.csv", "--as-of", "now"], "--as-of: Unknown value 'now'"),
        (["none.csv", "--out", "x.csv"], "none.csv: no such file"),
        (
            ["early.csv", "--out", "x.csv"],
            "early.csv, line 2: t=1970-01-01T00:00:05Z (5) is before the first event",
        ),
    ],
)
def test_score_refuses(options: list[str], message: str, run: Path, here: Path) -> None:
    (here / "pairs.csv").write_text(PAIRS)
    (here / "early.csv").write_text("src,dst,t\nn1,n9,5\n")
    (here / "odd.csv").write_text("a,b,c\nn1,n9,5\n")
    before = set(here.iterdir())
    assert message in Answer("score", run, *options).refusal
    assert set(here.iterdir()) == before
