"""``contig embed``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyarrow import csv, feather
from support.commands import SET, START, Answer, date, seconds

from contig.cli.nodes import read_ids
from contig.data.events import EventStream
from contig.errors import ConfigError
from contig.runs.run import Run

READERS = {".csv": csv.read_csv, ".parquet": pq.read_table, ".arrow": feather.read_table}

pytestmark = pytest.mark.usefixtures("fast_training", "here")


def test_embed_writes_every_node_to_parquet(run: Path) -> None:
    answer = Answer("embed", run, "--out", "deep/now.parquet")
    assert answer.code == 0, answer.err
    table = pq.read_table("deep/now.parquet")
    opened = Run.open(run)
    assert table.column_names == ["node", "side", "t", "last_event", "embedding"]
    assert set(seconds(table["t"].to_pylist())) == {opened.stream.t[-1] + 1}  # just after the last event
    assert str(table.schema.field("embedding").type) == "fixed_size_list<element: float>[8]"
    assert table["node"].to_pylist() == opened.stream.ids.labels.tolist()
    assert table["side"].to_pylist() == ["src"] * 10 + ["dst"] * 8
    assert np.array_equal(np.array(table["embedding"].to_pylist(), np.float32), opened.embed())
    assert f"wrote deep/now.parquet ({len(table)} embeddings)" in answer.err


@pytest.mark.parametrize(
    "at", ["2024-05-04T06:00:00", "2024-05-04T06:00Z", "2024-05-04T08:00+02:00", str(START + 280_800)]
)
def test_times_can_be_dates(at: str, run: Path) -> None:
    assert Answer("embed", run, "--at", at, "--out", "then.npy").code == 0
    then = np.load("then.npy")
    assert np.array_equal(then, Run.open(run).embed(at=START + 280_800))
    assert not np.array_equal(then, Run.open(run).embed())


def test_a_time_in_another_unit_is_refused(run: Path) -> None:
    answer = Answer("embed", run, "--at", str(1000 * START), "--out", "then.npy")
    assert "is the unit right? The events are in seconds" in answer.refusal


def test_embed_writes_some_nodes_to_npy(run: Path, here: Path) -> None:
    (here / "ids.txt").write_text("n3\n\n n14 \nn3\n")
    for given in ("n3,n14,n3", "ids.txt"):
        assert Answer("embed", run, "--nodes", given, "--out", "some.npy").code == 0
        assert np.array_equal(np.load("some.npy"), Run.open(run).embed(["n3", "n14", "n3"]))
        ids = json.loads((here / "some.ids.json").read_text())
        last = int(Run.open(run).stream.t[-1])
        assert ids == {
            **{"node": ["n3", "n14", "n3"], "side": ["src", "dst", "src"]},
            **{"t": [date(last + 1)] * 3, "last_event": [date(last)] * 3},
        }


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".arrow"])
def test_embed_writes_a_column_for_each_component(suffix: str, run: Path) -> None:
    file = f"wide{suffix}"
    assert (
        Answer("embed", run, "--nodes", "n3,n14", "--at", START + 280_800, "--wide", "--out", file).code == 0
    )
    table = READERS[suffix](file)
    assert table.column_names == ["node", "side", "t", "last_event", *(f"e{i}" for i in range(8))]
    assert seconds(table["t"].to_pylist()) == [START + 280_800] * 2
    found = np.column_stack([table[f"e{i}"].to_numpy() for i in range(8)])
    expected = Run.open(run).embed(["n3", "n14"], at=START + 280_800)
    assert np.array_equal(found.astype(np.float32), expected)  # nine digits are every bit of a float32
    assert (
        Answer("embed", run, "--nodes", "n3,n14", "--at", START + 280_800, "--wide", "--out", "w.npy").code
        == 0
    )
    assert np.array_equal(np.load("w.npy"), expected)


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
        (["--out", "x.xls"], "Unknown file format '.xls'"),
        (["--out", "folder.npy"], "is a folder"),
        (["--out", "file/x.npy"], "cannot be written"),
        (["--out", "x.npy", "--nodes", "n99"], "Node 'n99' is not in this stream; its ids look like 'n0'"),
        (["--out", "x.npy", "--nodes", "n8"], "is both a source and a destination"),
        (["--out", "x.npy", "--nodes", ","], "no ids found"),
        (["--out", "x.npy", "--side", "left"], "Unknown side 'left'"),
        (["--out", "x.npy", "--at", "noon"], "--at noon: not a time"),
        (["--out", "x.npy", "--at", "nan"], "times are finite"),
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


def test_an_id_with_a_comma_needs_a_file(tmp_path: Path) -> None:
    stream = EventStream.from_arrays(["Anna", "Smith, Jr. 5"], ["shop", "shop"], [1, 2])
    with pytest.raises(ConfigError, match=r"the id 'Smith, Jr\. 5' has a comma; give a file with one id per"):
        read_ids("--nodes", "Anna,Smith, Jr. 5", stream)
    (tmp_path / "ids.txt").write_text("Anna\nSmith, Jr. 5\n")
    assert read_ids("--nodes", str(tmp_path / "ids.txt"), stream) == ["Anna", "Smith, Jr. 5"]
    assert read_ids("--nodes", "Anna,Smith", stream) == ["Anna", "Smith"]
