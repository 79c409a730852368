"""``contig embed``, ``recommend`` and ``trajectory``: the answers of the library, in files and tables."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyarrow import csv, feather
from support.commands import COLUMNS, SET, START, Answer

from contig import plots
from contig.runs.run import Run

READERS = {".csv": csv.read_csv, ".parquet": pq.read_table, ".arrow": feather.read_table}

pytestmark = pytest.mark.usefixtures("fast_training", "here")


# --- embed ---------------------------------------------------------------------------------------------


def test_embed_writes_every_node_to_parquet(run: Path) -> None:
    answer = Answer("embed", run, "--out", "deep/now.parquet")
    assert answer.code == 0, answer.err
    table = pq.read_table("deep/now.parquet")
    opened = Run.open(run)
    assert table.column_names == ["node", "side", "embedding"]
    assert str(table.schema.field("embedding").type) == "fixed_size_list<element: float>[8]"
    assert table["node"].to_pylist() == opened.stream.ids.labels.tolist()
    assert table["side"].to_pylist() == ["src"] * 10 + ["dst"] * 8
    assert np.array_equal(np.array(table["embedding"].to_pylist(), np.float32), opened.embed())
    assert f"wrote deep/now.parquet ({len(table)} embeddings of width 8)" in answer.err


@pytest.mark.parametrize(
    "at", ["2024-05-04T06:00:00", "2024-05-04T06:00Z", "2024-05-04T08:00+02:00", str(START + 280_800)]
)
def test_times_can_be_dates(at: str, run: Path) -> None:
    assert Answer("embed", run, "--at", at, "--out", "then.npy").code == 0
    then = np.load("then.npy")
    assert np.array_equal(then, Run.open(run).embed(at=START + 280_800))
    assert not np.array_equal(then, Run.open(run).embed())


def test_embed_writes_some_nodes_to_npy(run: Path, here: Path) -> None:
    (here / "ids.txt").write_text("n3\n\n n14 \nn3\n")
    for given in ("n3,n14,n3", "ids.txt"):
        assert Answer("embed", run, "--nodes", given, "--out", "some.npy").code == 0
        assert np.array_equal(np.load("some.npy"), Run.open(run).embed(["n3", "n14", "n3"]))
        ids = json.loads((here / "some.ids.json").read_text())
        assert ids == {"node": ["n3", "n14", "n3"], "side": ["src", "dst", "src"]}


def test_embed_one_side(run: Path) -> None:
    assert Answer("embed", run, "--side", "dst", "--out", "pages.parquet").code == 0
    table = pq.read_table("pages.parquet")
    assert table["node"].to_pylist() == sorted(f"n{i}" for i in range(7, 15))
    assert set(table["side"].to_pylist()) == {"dst"}
    assert Answer("embed", run, "--nodes", "n8", "--side", "dst", "--out", "one.npy").code == 0
    row = table["node"].to_pylist().index("n8")
    np.testing.assert_allclose(np.load("one.npy")[0], table["embedding"][row].as_py(), rtol=1e-4, atol=1e-6)


def test_integer_ids_stay_integers(here: Path) -> None:
    assert Answer("train", "synthetic:300", "--epochs", 1, "--out", "run", *SET).code == 0
    assert Answer("embed", "run", "--nodes", "3,1", "--out", "x.parquet").code == 0
    assert pq.read_table("x.parquet")["node"].to_pylist() == [3, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--out", "x.csv"], "Unknown file format '.csv'"),
        (["--out", "folder.npy"], "is a folder"),
        (["--out", "file/x.npy"], "cannot be written"),
        (["--out", "x.npy", "--nodes", "n99"], "Node 'n99' is not in this stream; its ids look like 'n0'"),
        (["--out", "x.npy", "--nodes", "n8"], "is both a source and a destination"),
        (["--out", "x.npy", "--nodes", ","], "no ids found"),
        (["--out", "x.npy", "--side", "left"], "Unknown side 'left'"),
        (["--out", "x.npy", "--at", "noon"], "--at noon: not a time"),
        (["--out", "x.npy", "--at", "nan"], "finite time"),
    ],
)
def test_embed_refuses(options: list[str], message: str, run: Path, here: Path) -> None:
    (here / "folder.npy").mkdir()
    (here / "file").write_text("")
    answer = Answer("embed", run, *options)
    assert answer.code == 2
    assert message in answer.err
    assert {path.name for path in here.iterdir()} == {"folder.npy", "file"}


def test_dates_need_a_stream_with_dates(here: Path) -> None:
    assert Answer("train", "synthetic:300", "--model", "edgebank", "--out", "run").code == 0
    answer = Answer("recommend", "run", "--node", "1", "--at", "2024-05-01")
    assert answer.code == 2
    assert "do not look like dates; use a number" in answer.err


# --- recommend -----------------------------------------------------------------------------------------


def test_recommend(run: Path) -> None:
    expected = Run.open(run).recommend("n8", at=START + 500_000.5, k=3)
    found = Answer("recommend", run, "--node", "n8", "--at", START + 500_000.5, "-k", 3, "--json").json
    keys = ("node", "score", "probability")
    assert found["recommendations"] == [{key: getattr(one, key) for key in keys} for one in expected]
    assert (found["node"], found["at"]) == ("n8", START + 500_000.5)
    answer = Answer("recommend", run, "--node", "n8", "--at", START + 500_000.5, "--k", 3)
    assert "rank node probability" in answer.words
    for rank, one in enumerate(expected, 1):
        assert f"{rank} {one.node} {1 / (1 + exp(-one.score)):.3f}" in answer.words
    assert len(Answer("recommend", run, "--node", "n8", "--json").json["recommendations"]) == 8


@pytest.mark.parametrize(("at", "noted"), [(START - 9.0, True), ("first", True), (START + 500_000.5, False)])
def test_times_before_the_first_event_are_noted(at: float | str, noted: bool, run: Path, here: Path) -> None:
    """The time of the first event is too early, too."""
    when = Run.open(run).stream.t[0] if at == "first" else at
    commands = (
        ["recommend", run, "--node", "n8", "--at", when],
        ["embed", run, "--at", when, "--out", "x.npy"],
        ["trajectory", run, "--node", "n1", "--from", START - 99.0, "--to", when, "--out", "x.parquet"],
    )
    for command in commands:
        answer = Answer(*command)
        assert answer.code == 0, answer.err
        assert ("there is no event before this time" in answer.err) is noted


def test_heuristics_recommend_by_their_scores(here: Path) -> None:
    assert Answer("train", "synthetic:300", "--model", "edgebank", "--out", "run").code == 0
    assert "rank node score" in Answer("recommend", "run", "--node", "1").words
    rows = Answer("recommend", "run", "--node", "1", "-k", 2, "--json").json["recommendations"]
    assert {(row["score"], row["probability"]) for row in rows} <= {(0.0, None), (1.0, None)}


def test_a_node_without_events_gets_the_most_popular_destinations(run: Path) -> None:
    answer = Answer("recommend", run, "--node", "n99", "-k", 2, "--json")
    counts = Counter(Run.open(run).stream.ids.labels[Run.open(run).stream.dst].tolist())
    most = sorted(counts, key=lambda node: (-counts[node], node))[:2]
    expected = [{"node": node, "score": counts[node], "probability": None} for node in most]
    assert answer.json["cold_start"] is True
    assert answer.json["recommendations"] == expected
    assert "no events of n99 (1 of 1 nodes) are known; cold start" in answer.err


@pytest.mark.parametrize("name", ["lists.parquet", "lists.csv", "lists.arrow"])
def test_recommend_writes_the_lists_of_many(name: str, run: Path, here: Path) -> None:
    (here / "ids.txt").write_text("n3\nn99\nn8\n")
    options = ["--nodes", "ids.txt", "-k", 3, "--exclude-seen", "--candidates", "n7,n9,n12,n14"]
    assert Answer("recommend", run, *options, "--out", name).code == 0
    table = READERS[Path(name).suffix](name).to_pylist()
    opened = Run.open(run)
    among = ["n7", "n9", "n12", "n14"]
    for node in ("n3", "n99", "n8"):
        expected = opened.recommend(node, k=3, exclude_seen=True, candidates=among)
        rows = [row for row in table if row["node"] == node]
        assert [row["recommended"] for row in rows] == [one.node for one in expected]
        assert [row["rank"] for row in rows] == list(range(1, len(rows) + 1))
        assert [row["score"] for row in rows] == pytest.approx([one.score for one in expected], rel=1e-4)
        assert {row["cold_start"] for row in rows} <= {node == "n99"}
    assert {row["last_event"] for row in table} == {opened.stream.t[-1].item()}


def test_recommend_to_every_source(run: Path) -> None:
    assert Answer("recommend", run, "-k", 1, "--out", "all.parquet").code == 0
    assert pq.read_table("all.parquet")["node"].to_pylist() == [f"n{i}" for i in range(10)]


def test_recommend_refuses(run: Path) -> None:
    for options, message in (
        ([], "Specify --node"),
        (["--node", "n1", "--nodes", "n2", "--out", "x.csv"], "not both"),
        (["--node", "n14"], "'n14' is a destination in this stream; expected a source"),
        (["--node", "n1", "--candidates", "n99"], "its ids look like 'n0'"),
        (["--node", "n1", "--side", "left"], "Unknown side 'left'"),
        (["--nodes", "n1", "--out", "x.json"], "Unknown file format"),
        (["--node", "n1", "-k", 0], "-k"),
    ):
        assert message in Answer("recommend", run, *options).refusal


# --- trajectory ----------------------------------------------------------------------------------------


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
        (["--out", "x.csv"], "Unknown file format '.csv'"),
        (["--out", "x.parquet", "--from", "2024-05-03", "--to", "2024-05-02"], "must end after it starts"),
        (["--out", "x.parquet", "--points", "1"], "--points"),
    ],
)
def test_trajectory_refuses(options: list[str], message: str, run: Path, here: Path) -> None:
    answer = Answer("trajectory", run, "--node", "n2", *options)
    assert message in answer.refusal
    assert list(here.iterdir()) == []


# --- score ---------------------------------------------------------------------------------------------


PAIRS = "page,who,note,when\nn9,n3,a,2024-05-09\nn14,n8,b,2024-05-03T12:00\nn7,n0,c,2025-01-01\n"
SECONDS = [START + 8 * 86_400, START + 2.5 * 86_400, 1_735_689_600]


@pytest.mark.parametrize("name", ["scores.csv", "deep/scores.parquet", "scores.arrow"])
def test_score_writes_a_row_for_each_pair_in_their_order(name: str, run: Path, here: Path) -> None:
    (here / "pairs.csv").write_text(PAIRS)
    answer = Answer("score", run, "pairs.csv", *COLUMNS, "--out", name)
    assert answer.code == 0, answer.err
    found = READERS[Path(name).suffix](name)
    opened = Run.open(run)
    expected = opened.score(["n3", "n8", "n0"], ["n9", "n14", "n7"], SECONDS)
    assert found.column_names == ["src", "dst", "t", "score", "probability", "surprise", "last_event"]
    assert (found["src"].to_pylist(), found["t"].to_pylist()) == (["n3", "n8", "n0"], SECONDS)
    assert found["score"].to_pylist() == pytest.approx(expected.score.tolist())
    assert found["surprise"].to_pylist() == pytest.approx(np.log2(1 + np.exp(-expected.score)).tolist())
    known = [max(t for t in opened.stream.t.tolist() if t < when) for when in SECONDS]
    assert found["last_event"].to_pylist() == known
    assert f"wrote {name} (3 scores)" in answer.err


def test_scores_at_the_pairs_own_times(run: Path, here: Path) -> None:
    (here / "pairs.csv").write_text(PAIRS)
    assert Answer("score", run, "pairs.csv", *COLUMNS, "--as-of", "event", "--out", "x.parquet").code == 0
    expected = [Run.open(run).score("n3", "n9", SECONDS[0]).score[0]]
    assert pq.read_table("x.parquet")["score"].to_pylist()[:1] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["pairs.csv", "--out", "x.csv"], "no column is called"),
        (["pairs.csv", *COLUMNS, "--out", "x.json"], "Unknown file format '.json'"),
        (["pairs.csv", *COLUMNS, "--out", "x.csv", "--as-of", "now"], "--as-of: Unknown value 'now'"),
        (["none.csv", "--out", "x.csv"], "none.csv: no such file"),
        (["strange.csv", "--out", "x.csv"], "strange.csv, line 3: Node 'zed' is not in this stream"),
        (["early.csv", "--out", "x.csv"], "early.csv, line 2: t=5 is before the first event"),
    ],
)
def test_score_refuses(options: list[str], message: str, run: Path, here: Path) -> None:
    (here / "pairs.csv").write_text(PAIRS)
    (here / "strange.csv").write_text(f"src,dst,t\nn1,n9,{START * 2}\nzed,n9,{START * 2}\n")
    (here / "early.csv").write_text("src,dst,t\nn1,n9,5\n")
    before = set(here.iterdir())
    assert message in Answer("score", run, *options).refusal
    assert set(here.iterdir()) == before


# --- update --------------------------------------------------------------------------------------------


def test_update_adds_events_that_later_commands_know(run: Path, here: Path) -> None:
    shutil.copytree(run, here / "copy")
    (here / "new.csv").write_text("who,page,when\nn3,n9,2024-06-01\nzoe,n14,2024-06-02\n")
    answer = Answer("update", "copy", "new.csv", *COLUMNS)
    assert answer.code == 0, answer.err
    assert "copy observed 2 events and 1 new nodes; it knows 282 events" in answer.err
    found = Answer("recommend", "copy", "--node", "zoe", "--json").json
    assert (found["cold_start"], found["last_event"]) == (False, START + 32 * 86_400)
    again = Answer("update", "copy", "new.csv", *COLUMNS).refusal
    assert "new.csv, line 2: t=1717200000 is before the last event that the run knows" in again
