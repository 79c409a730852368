"""``contig recommend``."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from math import exp
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv, feather
from support.commands import START, Answer, date, seconds

import contig
from contig.runs.run import Run

READERS = {".csv": csv.read_csv, ".parquet": pq.read_table, ".arrow": feather.read_table}

pytestmark = pytest.mark.usefixtures("fast_training", "here")


def test_recommend(run: Path) -> None:
    expected = Run.open(run).recommend("n8", at=START + 500_000.5, k=3)
    found = Answer("recommend", run, "--node", "n8", "--at", START + 500_000.5, "-k", 3, "--json").json
    keys = ("node", "score", "probability")
    assert found["recommendations"] == [{key: getattr(one, key) for key in keys} for one in expected]
    assert (found["node"], found["at"]) == ("n8", START + 500_000.5)
    assert found["last_event"] == expected.last_event
    now, last = Answer("recommend", run, "--node", "n8", "--json").json, int(Run.open(run).stream.t[-1])
    assert (now["at"], now["last_event"]) == (last + 1, last)
    assert datetime.fromisoformat(now["last_event_date"]).timestamp() == last
    answer = Answer("recommend", run, "--node", "n8", "--at", START + 500_000.5, "--k", 3)
    assert "rank node probability" in answer.words
    assert f"at {date(START + 500_000.5)}, from the events up to {date(expected.last_event)}" in answer.err
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
    found = Answer("recommend", "run", "--node", "1", "-k", 2, "--json").json
    assert found["node"] == 1  # as in the events
    assert "at_date" not in found  # their times are not dates
    rows = found["recommendations"]
    assert {(row["score"], row["probability"]) for row in rows} <= {(0.0, None), (1.0, None)}
    assert found["score_kind"] == "heuristic"


def test_a_node_without_events_gets_the_most_popular_destinations(run: Path) -> None:
    answer = Answer("recommend", run, "--node", "n99", "-k", 2, "--json")
    counts = Counter(Run.open(run).stream.ids.labels[Run.open(run).stream.dst].tolist())
    most = sorted(counts, key=lambda node: (-counts[node], node))[:2]
    expected = [{"node": node, "score": counts[node], "probability": None} for node in most]
    assert (answer.json["cold_start"], answer.json["score_kind"]) == (True, "events")
    assert f"rank node events 1 {most[0]} {counts[most[0]]} 2" in " ".join(
        Answer("recommend", run, "--node", "n99", "-k", 2).out.replace("─", "").split()
    )
    assert answer.json["recommendations"] == expected
    assert "cold start for n99, without earlier events" in answer.err
    assert "Did you mean 'n9'" in answer.err
    other = Answer("recommend", run, "--node", "zed").err
    assert "Did you mean" not in other
    assert "The run does not know 'zed'; its ids look like 'n" in " ".join(other.split())


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
        assert {row["score_kind"] for row in rows} <= {"events" if node == "n99" else "logit"}
    assert set(seconds(row["last_event"] for row in table)) == {opened.stream.t[-1].item()}


def test_recommend_to_every_source(run: Path) -> None:
    assert Answer("recommend", run, "-k", 1, "--out", "all.parquet").code == 0
    assert pq.read_table("all.parquet")["node"].to_pylist() == [f"n{i}" for i in range(10)]


def test_recommend_refuses(run: Path) -> None:
    for options, message in (
        ([], "Specify --node"),
        (["--node", "n1", "--nodes", "n2", "--out", "x.csv"], "not both"),
        (
            ["--node", "n14"],
            "'n14' is a destination in this stream; expected a source. To get a list for it, use side='dst'",
        ),
        (
            ["--node", "n1", "--candidates", "n99"],
            "candidates (--candidates): Node 'n99' is not in this stream as a destination; its ids look like "
            "'n10', 'n11', 'n12'. Did you mean 'n9'?",
        ),
        (["--node", "n1", "--side", "left"], "Unknown side 'left'"),
        (["--nodes", "n1", "--out", "x.json"], "Unknown file format"),
        (["--node", "n1", "-k", 0], "-k"),
    ):
        assert message in Answer("recommend", run, *options).refusal


def test_ids_may_have_slashes(tmp_path: Path, here: Path) -> None:
    log = {"src": ["a", "b"] * 20, "dst": ["sku/1", "sku/2"] * 20, "t": list(range(40))}
    run = contig.fit(log, "recency", out=tmp_path / "run", show=False).path
    answer = Answer("recommend", run, "--node", "a", "--candidates", "sku/1, sku/2", "--json")
    assert {one["node"] for one in answer.json["recommendations"]} == {"sku/1", "sku/2"}
    assert Answer("embed", run, "--nodes", "sku/1,sku/3", "--out", "e.csv").refusal.startswith("error: Node")
    many = ",".join(["sku/1"] * 9_000)  # longer than a path may be
    assert Answer("recommend", run, "--node", "a", "--candidates", many).code == 0
    assert "no such id" in Answer("embed", run, "--nodes", many.replace("1", "9"), "--out", "f.csv").refusal
    refusal = Answer("recommend", run, "--nodes", "sku/8,sku/9", "--out", "x.csv").refusal
    assert "there is no such file, and no such id" in refusal


def test_a_table_of_events_is_not_a_file_of_ids(run: Path, here: Path) -> None:
    (here / "events.csv").write_text("who,what\nn3,n12\nn8,n14\n")
    refused = Answer("recommend", run, "--nodes", "events.csv", "--out", "lists.csv").refusal
    assert "no line of this file is a known id, and the first has several columns: 'who,what'" in refused
    (here / "ids.csv").write_text("a,new;id\nn3\n")  # ids may have commas
    assert Answer("recommend", run, "--nodes", "ids.csv", "--out", "lists.csv").code == 0


def test_a_note_says_how_personal_the_lists_are(run: Path, here: Path) -> None:
    answer = Answer("recommend", run, "--nodes", "n3,n8", "-k", 2, "--out", "lists.parquet")
    first, second = (
        {row["recommended"] for row in pq.read_table("lists.parquet").to_pylist() if row["node"] == node}
        for node in ("n3", "n8")
    )
    assert f"on average two lists share {len(first & second):.2f} of their 2 nodes" in answer.err
    long = Answer("recommend", run, "--nodes", "n3,n8", "-k", 99, "--out", "lists.parquet")
    length = len(pq.read_table("lists.parquet")) // 2
    assert length < 99
    assert f"of their {length} nodes;" in long.err


def test_only_lists_that_are_written_are_counted(run: Path) -> None:
    options = ["--nodes", "n3,n98,n99", "--candidates", "n9", "--exclude-seen", "--out", "lists.parquet"]
    answer = Answer("recommend", run, *options)  # n3 has met n9
    assert "nothing to recommend to 1 of 3 nodes: no candidate is left" in answer.words
    assert pq.read_table("lists.parquet")["node"].to_pylist() == ["n98", "n99"]
    assert "wrote lists.parquet (2 lists)" in answer.words
    assert "on average two lists share 1.00 of their 1 nodes" in answer.words


def test_candidates_that_nobody_has_met_are_left_out(run: Path, here: Path) -> None:
    """Of a whole catalogue; ids of sources are unknown as destinations, too."""
    (here / "catalogue.txt").write_text("".join(f"n{i}\n" for i in range(1, 20)))
    answer = Answer("recommend", run, "--candidates", "catalogue.txt", "--out", "lists.parquet")
    assert answer.code == 0, answer.err
    assert "left out 11 of 19 that no event has as a destination, such as 'n1'." in answer.words
    found = set(pq.read_table("lists.parquet")["recommended"].to_pylist())
    assert found == {f"n{i}" for i in range(7, 15)}


def test_ids_come_from_columns_of_tables(run: Path, here: Path) -> None:
    pq.write_table(pa.table({"score": [1.0, 2.0], "node": ["n3", "n8"]}), "ids.parquet")
    feather.write_feather(pa.table({"who": ["n3", "n8"]}), "ids.arrow")
    pq.write_table(pa.table({"who": [1.5]}), "bad.parquet")
    for ids in ("n3,n8", "ids.parquet", "ids.arrow"):
        assert Answer("recommend", run, "--nodes", ids, "-k", 2, "--out", "lists.parquet").code == 0
        assert pq.read_table("lists.parquet")["node"].to_pylist() == ["n3", "n3", "n8", "n8"]
    refused = Answer("recommend", run, "--nodes", "bad.parquet", "--out", "lists.parquet").refusal
    assert "ids must be integers or text" in refused
