"""A run keeps how its features were encoded and applies it to later events."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from support.commands import Answer

import contig
from contig.data.datasets import open_stream
from contig.data.shop import FEATURES, shop_table
from contig.data.splits import chronological_split
from contig.errors import ConfigError, DataError, RunError
from contig.runs.new_events import read_new_events

COLUMNS = {"src": "user", "dst": "item", "t": "time", "label": "fraud"}
SMALL = {"epochs": 1, "dim": 8, "time_dim": 4, "neighbors": 3, "show": False}
ORDERS, CUT = 700, 600


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    table = shop_table(ORDERS, seed=2)
    import pyarrow.csv as csv

    csv.write_csv(table.slice(0, CUT), folder / "first.csv")
    csv.write_csv(table.slice(CUT), folder / "later.csv")
    return folder


@pytest.fixture(scope="module")
def run(log: Path) -> contig.Run:
    return contig.fit(log / "first.csv", out=log / "run", **COLUMNS, features=FEATURES, **SMALL)


def test_a_run_encodes_by_its_training_part_and_keeps_the_plan(run: contig.Run, log: Path) -> None:
    raw = open_stream(log / "first.csv", **COLUMNS, features=FEATURES)
    train = chronological_split(raw, holdout=run.config.train.holdout).train
    price = raw.edge_features[train, 0].astype(np.float64)
    plan = run.features.events.columns[0]
    price = price[~np.isnan(price)]
    logs = np.log1p(price / plan.unit)
    assert plan.unit == pytest.approx(np.median(price))
    assert (plan.mean, plan.scale) == (pytest.approx(logs.mean()), pytest.approx(logs.std()))
    assert run.stream.edge_width == len(run.features.events.outputs)
    assert np.isfinite(run.stream.edge_features).all()
    again = contig.Run.open(run.path)
    assert again.features == run.features
    assert again.stream.edge_features.tolist() == run.stream.edge_features.tolist()


def test_later_events_are_encoded_by_the_same_plan(run: contig.Run, log: Path) -> None:
    reading = contig.ReadOptions(**COLUMNS)
    raw = open_stream(log / "later.csv", **COLUMNS, features=FEATURES)
    found = read_new_events(log / "later.csv", reading, run.features).columns
    plan = run.features.events.columns[0]
    price = np.log1p(raw.edge_features[:, 0].astype(np.float64) / plan.unit)
    expected = np.clip(np.nan_to_num((price - plan.mean) / plan.scale), -10, 10)
    np.testing.assert_allclose(found.features[:, 0], expected, rtol=1e-5, atol=1e-6)
    same = read_new_events(raw, reading, run.features).columns
    assert same.features.tolist() == found.features.tolist()
    assert found.label is None
    assert (
        read_new_events(raw, reading, run.features, with_labels=True).columns.label.tolist()
        == raw.label.tolist()
    )


def test_observed_events_carry_encoded_features(run: contig.Run, log: Path) -> None:
    expected = read_new_events(
        log / "later.csv", contig.ReadOptions(**COLUMNS), run.features
    ).columns.features
    opened = contig.Run.open(run.path)
    assert opened.observe(log / "later.csv", src="user", dst="item", t="time") == ORDERS - CUT
    assert opened.stream.edge_features[CUT:].tolist() == expected.tolist()


def test_a_file_without_the_columns_is_refused(run: contig.Run, tmp_path: Path) -> None:
    path = tmp_path / "bare.csv"
    path.write_text("user,item,time,price\nu,i,2030-01-01,3\n")
    with pytest.raises(DataError, match=r"no column 'category' .* no column 'payment'"):
        run.observe(path, src="user", dst="item", t="time")
    with pytest.raises(DataError, match="no feature column 'category'"):
        run.observe(path, src="user", dst="item", t="time", features=["price"])


CODES = "src,dst,t,zone\n" + "".join(
    f"u{i % 5},v{i % 3},{i},{'01' if i % 2 else 'north'}\n" for i in range(60)
)


def test_the_plan_says_what_a_column_holds(tmp_path: Path) -> None:
    (tmp_path / "codes.csv").write_text(CODES)
    run = contig.fit(tmp_path / "codes.csv", "popularity", features=["zone"], show=False)
    later = tmp_path / "later.csv"
    later.write_text("src,dst,t,zone\nu1,v1,70,01\nu2,v1,71,1\n")  # all of it looks like numbers
    run.observe(later)
    assert run.features.events.outputs == ("zone=01", "zone=north", "zone=other")
    assert run.stream.edge_features[60:].tolist() == [[1, 0, 0], [0, 0, 1]]
    with pytest.raises(ConfigError, match=r"preprocess=False .*omit the option"):
        run.observe(later, preprocess=False)


def test_features_of_nodes_are_refused(run: contig.Run, log: Path) -> None:
    with pytest.raises(ConfigError, match=r"node_features='nodes.csv': .* omit it"):
        run.observe(log / "later.csv", node_features="nodes.csv")


def vectors(values: np.ndarray, start: int) -> dict[str, np.ndarray | list]:
    rows = np.arange(len(values))
    return {"src": rows % 4, "dst": 10 + rows % 3, "t": start + rows, "features": values.tolist()}


def test_vectors_are_encoded_from_any_source() -> None:
    drawn = np.random.default_rng(4).normal(3, 2, (90, 2))
    run = contig.fit(vectors(drawn[:80], 0), "popularity", preprocess=True, show=False)
    plan = run.features.events.columns
    expected = [[(v - c.mean) / c.scale for v, c in zip(row, plan, strict=True)] for row in drawn[80:]]
    table = vectors(drawn[80:], 80)
    wide = {name: table[name] for name in ("src", "dst", "t")} | {f"f{i}": drawn[80:, i] for i in (0, 1)}
    stream = contig.read_events(table)
    for source in (table, wide, stream):
        found = read_new_events(source, contig.ReadOptions(), run.features).columns.features
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(DataError, match="1 features; those of the run are f0, f1"):
        run.observe(vectors(drawn[80:, :1], 80))


def test_a_run_without_a_plan_takes_complete_numbers_only(tmp_path: Path) -> None:
    run = contig.fit(vectors(np.ones((60, 1)), 0), "popularity", show=False)
    bad = {"src": [1, 2], "dst": [10, 11], "t": [70, 71]}
    for kind, problem in ((["a", "b"], "is not a number"), ([1.0, None], "the feature is missing")):
        with pytest.raises(DataError, match=problem):
            run.observe({**bad, "kind": kind}, features=["kind"])
    raw = contig.read_events({**bad, "kind": ["a", "b"]}, features=["kind"])
    with pytest.raises(DataError, match="column 'kind' holds categories"):
        run.observe(raw)
    gap = contig.read_events({**bad, "size": [1.0, None]}, features=["size"])
    with pytest.raises(DataError, match=r"row 1 .*column 'size': the feature is missing"):
        run.observe(gap)
    with pytest.raises(ConfigError, match="preprocess=True"):
        run.observe({**bad, "size": [1.0, 2.0]}, features=["size"], preprocess=True)
    assert run.observe({**bad, "size": [1.0, 2.0]}, features=["size"]) == 2
    assert run.stream.edge_features[60:].tolist() == [[1], [2]]


def test_a_changed_plan_is_noticed(run: contig.Run, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "run"
    shutil.copytree(run.path, copy)
    content = json.loads((copy / "config.json").read_text())
    content["features"]["events"]["columns"][0]["mean"] += 1
    (copy / "config.json").write_text(json.dumps(content))
    with pytest.raises(RunError, match="damaged"):
        contig.Run.open(copy)


def test_datasets_are_used_as_they_are_unless_asked() -> None:
    stream = contig.synthetic(300, seed=1, edge_features=2)
    table = stream.to_arrow()
    run = contig.fit(table, "popularity", bipartite=True, show=False)
    assert run.features is None
    np.testing.assert_array_equal(run.stream.edge_features, stream.edge_features)
    asked = contig.fit(table, "popularity", bipartite=True, preprocess=True, show=False)
    assert asked.features.events.inputs == ("f0", "f1")
    with pytest.raises(ConfigError, match="categories and missing values"):
        open_stream("shop:600", preprocess=False)


# --- features of nodes -------------------------------------------------------------------------------


def node_file(folder: Path, text: str) -> Path:
    path = folder / "nodes.csv"
    path.write_text(text)
    return path


EVENTS = "src,dst,t\n" + "".join(f"u{i % 4},v{i % 3},{i}\n" for i in range(40))


@pytest.fixture
def events(tmp_path: Path) -> Path:
    path = tmp_path / "events.csv"
    path.write_text(EVENTS)
    return path


def test_node_features_are_read_by_id_and_encoded(events: Path, tmp_path: Path) -> None:
    rows = "node,age,team\nu0,10,red\nv1,30,blue\nu2,,red\nstranger,1,red\n"
    rows += "u1,20,red\nu3,60,\nv0,5,red\nv2,1,red\n"
    run = contig.fit(events, "popularity", node_features=node_file(tmp_path, rows), show=False)
    plan, labels = run.features.nodes, run.stream.ids.labels.tolist()
    found = dict(zip(plan.outputs, run.stream.node_features.T, strict=True))
    ages = np.array([10, 30, 20, 60, 5, 1.0])
    assert found["age missing"][labels.index("u2")] == 1
    scaled = (np.array([10, 60]) - ages.mean()) / ages.std()
    assert [found["age"][labels.index(n)] for n in ("u0", "u3")] == pytest.approx(scaled.tolist(), rel=1e-5)
    assert found["team=red"][labels.index("v0")] == 1
    assert found["team=other"][labels.index("v1")] == 1  # too rare for a column
    assert run.features.events is None


def test_a_new_node_has_missing_features(events: Path, tmp_path: Path) -> None:
    nodes = node_file(tmp_path, "node,age\nu0,10\nu1,30\nu2,\nv0,20\nv1,25\nv2,30\nu3,35\n")
    run = contig.fit(events, "tgn", node_features=nodes, out=tmp_path / "run", **SMALL)
    missing = run.stream.node_features[run.stream.ids.find("u2")]
    assert missing.tolist() == [0, 1]  # the mean, and the flag
    run.observe({"src": ["u0", "newcomer"], "dst": ["v9", "v0"], "t": [50, 51]})
    for one in (run, contig.Run.open(run.path), contig.refit(run, out=tmp_path / "refit", show=False)):
        assert one.stream.node_features[-2:].tolist() == [missing.tolist()] * 2
    for one in (run, contig.Run.open(run.path)):
        numbers = torch.tensor([one.stream.ids.find(n) for n in ("u2", "newcomer", "v9")])
        assert one.model.features_of(numbers).tolist() == [missing.tolist()] * 3


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ("node,age\nx,1\ny,2\n", "none of the ids in column 'node' is a node"),
        ("node,age\nu0,1\nu1,2\nu0,3\n", "'u0' has a second row"),
        ("node\nu0\n", "no columns next to the ids"),
        ("node,age\n", "no events"),
        ("node,side,age\nu0,left,1\n", "'left' is neither src nor dst"),
    ],
)
def test_bad_node_files_are_refused(events: Path, tmp_path: Path, rows: str, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        open_stream(events, node_features=node_file(tmp_path, rows))


def test_a_node_on_both_sides_needs_its_side(tmp_path: Path) -> None:
    events = tmp_path / "events.csv"
    events.write_text("user,item,t\n" + "".join(f"{i % 4},{i % 3},{i}\n" for i in range(20)))
    with pytest.raises(DataError, match="'side' with src or dst"):
        open_stream(events, node_features=node_file(tmp_path, "id,age\n1,5\n"))
    stream = open_stream(events, node_features=node_file(tmp_path, "id,side,age\n1,dst,5\n1,src,4\n"))
    found = {
        (bool(d), int(n)): v
        for d, n, v in zip(stream.ids.is_dst, stream.ids.labels, stream.node_features[:, 0], strict=True)
    }
    assert (found[True, 1], found[False, 1]) == (5, 4)
    assert np.isnan(found[True, 0])


def test_the_command_line_takes_both_kinds(events: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    nodes = node_file(tmp_path, "node,age\nu0,1\nu1,2\nv0,4\n")
    arguments = ["--model", "popularity", "--no-heuristics", "--out", "run", "--node-features", nodes]
    answer = Answer("train", events, *arguments)
    assert answer.code == 0, answer.err
    assert "no features for 4 of 7 nodes" in " ".join(answer.err.split())
    assert contig.Run.open(tmp_path / "run").features.nodes.inputs == ("age",)
    missing = Answer("train", events, "--out", "x", "--node-features", "nowhere.csv")
    assert missing.code == 2
    assert "no such file of node features" in " ".join(missing.err.split())


# -- columns that were named ---------------------------------------------------------------------------------

ODD = "Account No.;Merchant;Booked At;Is Fraud?\n"
ODD_READING = {
    "src": "Account No.",
    "dst": "Merchant",
    "t": "Booked At",
    "label": "Is Fraud?",
    "date_format": "%m/%d/%Y %H:%M",
}


def odd_rows(start: int, stop: int) -> str:
    rows = [
        f"a{i % 7};m{i % 5};05/{1 + i // 24:02d}/2024 {i % 24:02d}:00;{'yes' if i % 9 == 0 else 'no'}\n"
        for i in range(start, stop)
    ]
    return "".join(rows)


def test_a_run_reads_later_files_by_the_columns_that_were_named(tmp_path: Path) -> None:
    (tmp_path / "past.csv").write_text(ODD + odd_rows(0, 200))
    (tmp_path / "later.csv").write_text(ODD + odd_rows(200, 230))
    (tmp_path / "plain.csv").write_text("src,dst,t,label\na1,m1,2024-05-20T00:00:00Z,1\n")
    run = contig.fit(tmp_path / "past.csv", "recency", out=tmp_path / "run", show=False, **ODD_READING)
    assert run.stream.label[:10].tolist() == [1, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    assert contig.Run.open(run.path).read_as == contig.ReadOptions(**ODD_READING)
    assert run.evaluate(data=tmp_path / "later.csv", show=False).result.transductive.events == 30
    scored = Answer("score", run.path, tmp_path / "later.csv", "--out", tmp_path / "scores.csv")
    assert scored.code == 0, scored.err
    found = Answer("recommend", run.path, "--node", "a1", "--at", "05/03/2024 10:00", "--json").json
    assert found["at_date"] == "2024-05-03T10:00:00Z"
    assert Answer("update", run.path, tmp_path / "later.csv").code == 0
    refitted = contig.refit(run.path, out=tmp_path / "refitted", show=False)
    assert refitted.observe(tmp_path / "plain.csv") == 1  # other columns are recognized as ever
    assert len(refitted.stream) == 231
    assert refitted.read_as == run.read_as


def test_a_named_column_overrides_the_usual_one(tmp_path: Path) -> None:
    usual = contig.ReadOptions(src="who", t="when", date_format="%d.%m.%Y")
    table = {"who": ["a"], "other": ["b"], "dst": ["c"], "when": ["03.05.2024"], "time": [7]}
    first = read_new_events(table, contig.ReadOptions(), None, usual=usual).columns
    assert (first.src.labels.tolist(), first.t.tolist()) == (["a"], [1714694400])
    second = read_new_events(table, contig.ReadOptions(src="other", t="time"), None, usual=usual).columns
    assert (second.src.labels.tolist(), second.t.tolist()) == (["b"], [7])
    assert contig.ReadOptions(src=0, dst=1, t=2).named is None


def test_another_column_is_not_taken_for_a_missing_one_of_the_run() -> None:
    """Here ``source`` is the channel of a sale; without it, nothing would be recognized."""
    usual = contig.ReadOptions(src="customer", dst="sku", t="ordered")
    table = {"source": ["web"], "sku": ["x1"], "ordered": [7]}
    with pytest.raises(
        DataError, match=r"no column 'customer' for the sources, which the run was .*\(--src\)"
    ):
        read_new_events(table, contig.ReadOptions(), None, usual=usual)
    named = read_new_events(table, contig.ReadOptions(src="source"), None, usual=usual).columns
    assert named.src.labels.tolist() == ["web"]
    others = {"src": ["web"], "dst": ["x1"], "t": [7]}  # has names of its own
    assert read_new_events(others, contig.ReadOptions(), None, usual=usual).columns.t.tolist() == [7]


def test_columns_by_position_are_not_remembered() -> None:
    assert contig.ReadOptions(src=0, dst=1, t=2).named is None
    assert contig.ReadOptions(features=["x"], format="csv").named is None
