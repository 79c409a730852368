from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from commands import SET, START, Answer

from contig import plots
from contig.training.run import Run

pytestmark = pytest.mark.usefixtures("light", "here")


# --- embed ---------------------------------------------------------------------------------------------


def test_every_node_in_parquet(run: Path) -> None:
    answer = Answer("embed", run, "--out", "deep/now.parquet")
    assert answer.code == 0, answer.err
    table = pq.read_table("deep/now.parquet")
    opened = Run.open(run)
    assert table.column_names == ["node", "side", "embedding"]
    assert str(table.schema.field("embedding").type) == "fixed_size_list<element: float>[8]"
    assert table["node"].to_pylist() == opened.stream.ids.labels.tolist()
    assert table["side"].to_pylist() == ["src"] * 10 + ["dst"] * 8
    assert np.array_equal(np.array(table["embedding"].to_pylist(), np.float32), opened.embed())
    assert f"{len(table)} embeddings of width 8 are in deep/now.parquet" in answer.err


@pytest.mark.parametrize(
    "at", ["2024-05-04T06:00:00", "2024-05-04T06:00Z", "2024-05-04T08:00+02:00", str(START + 280_800)]
)
def test_a_date_is_a_time(at: str, run: Path) -> None:
    assert Answer("embed", run, "--at", at, "--out", "then.npy").code == 0
    then = np.load("then.npy")
    assert np.array_equal(then, Run.open(run).embed(at=START + 280_800))
    assert not np.array_equal(then, Run.open(run).embed())


def test_some_nodes_in_npy(run: Path, here: Path) -> None:
    (here / "ids.txt").write_text("n3\n\n n14 \nn3\n")
    for given in ("n3,n14,n3", "ids.txt"):
        assert Answer("embed", run, "--nodes", given, "--out", "some.npy").code == 0
        assert np.array_equal(np.load("some.npy"), Run.open(run).embed(["n3", "n14", "n3"]))
        ids = json.loads((here / "some.ids.json").read_text())
        assert ids == {"node": ["n3", "n14", "n3"], "side": ["src", "dst", "src"]}


def test_one_side(run: Path) -> None:
    assert Answer("embed", run, "--side", "dst", "--out", "pages.parquet").code == 0
    table = pq.read_table("pages.parquet")
    assert table["node"].to_pylist() == sorted(f"n{i}" for i in range(7, 15))
    assert set(table["side"].to_pylist()) == {"dst"}
    assert Answer("embed", run, "--nodes", "n8", "--side", "dst", "--out", "one.npy").code == 0
    row = table["node"].to_pylist().index("n8")
    np.testing.assert_allclose(np.load("one.npy")[0], table["embedding"][row].as_py(), rtol=1e-4, atol=1e-6)


def test_ids_that_are_numbers_stay_numbers(here: Path) -> None:
    assert Answer("train", "synthetic:300", "--epochs", 1, "--out", "run", *SET).code == 0
    assert Answer("embed", "run", "--nodes", "3,1", "--out", "x.parquet").code == 0
    assert pq.read_table("x.parquet")["node"].to_pylist() == [3, 1]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--out", "x.csv"], "Unknown kind of file '.csv'"),
        (["--out", "folder.npy"], "is a folder"),
        (["--out", "file/x.npy"], "cannot be written"),
        (["--out", "x.npy", "--nodes", "n99"], "Node 'n99' is not in this stream; its ids look like 'n0'"),
        (["--out", "x.npy", "--nodes", "n8"], "is both a source and a destination"),
        (["--out", "x.npy", "--nodes", ","], "there is no id in it"),
        (["--out", "x.npy", "--side", "left"], "Unknown side 'left'"),
        (["--out", "x.npy", "--at", "noon"], "--at noon: not a time"),
        (["--out", "x.npy", "--at", "nan"], "finite time"),
    ],
)
def test_embed_refuses(options: list[str], told: str, run: Path, here: Path) -> None:
    (here / "folder.npy").mkdir()
    (here / "file").write_text("")
    answer = Answer("embed", run, *options)
    assert answer.code == 2
    assert told in answer.err
    assert {path.name for path in here.iterdir()} == {"folder.npy", "file"}


def test_a_date_means_nothing_to_a_stream_without_dates(here: Path) -> None:
    assert Answer("train", "synthetic:300", "--model", "edgebank", "--out", "run").code == 0
    answer = Answer("recommend", "run", "--node", "1", "--at", "2024-05-01")
    assert answer.code == 2
    assert "do not look like dates; give a number" in answer.err


# --- recommend -----------------------------------------------------------------------------------------


def test_recommend(run: Path) -> None:
    expected = Run.open(run).recommend("n8", at=START + 500_000.5, k=3)
    found = Answer("recommend", run, "--node", "n8", "--at", START + 500_000.5, "-k", 3, "--json").json
    assert found["recommendations"] == [{"node": one.node, "score": one.score} for one in expected]
    assert (found["node"], found["at"]) == ("n8", START + 500_000.5)
    answer = Answer("recommend", run, "--node", "n8", "--at", START + 500_000.5, "-k", 3)
    for rank, one in enumerate(expected, 1):
        assert f"{rank} {one.node} {one.score:.3f}" in answer.words
    assert len(Answer("recommend", run, "--node", "n8", "--json").json["recommendations"]) == 8


def test_recommend_refuses(run: Path) -> None:
    for options, told in ((["--node", "n99"], "its ids look like 'n0'"), (["--node", "n1", "-k", 0], "-k")):
        assert told in Answer("recommend", run, *options).refusal


# --- trajectory ----------------------------------------------------------------------------------------


def test_a_path_in_numbers_and_in_a_figure(run: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert (node, title) == (opened.stream.ids.find("n9", "dst"), "n9 in visits.csv")
    assert np.array_equal(at, times)
    assert np.array_equal(embeddings, expected)


def test_a_path_is_as_long_as_the_stream(run: Path) -> None:
    assert Answer("trajectory", run, "--node", "n2", "--points", 3, "--out", "p.parquet").code == 0
    t = Run.open(run).stream.t
    assert pq.read_table("p.parquet")["t"].to_pylist() == [t[0], (t[0] + t[-1]) / 2, t[-1]]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([], "Nothing to make"),
        (["--plot", "x.gif"], "Unknown picture format 'gif'"),
        (["--out", "x.csv"], "Unknown kind of file '.csv'"),
        (["--out", "x.parquet", "--from", "2024-05-03", "--to", "2024-05-02"], "must end after it begins"),
        (["--out", "x.parquet", "--points", "1"], "--points"),
    ],
)
def test_trajectory_refuses(options: list[str], told: str, run: Path, here: Path) -> None:
    answer = Answer("trajectory", run, "--node", "n2", *options)
    assert told in answer.refusal
    assert list(here.iterdir()) == []
