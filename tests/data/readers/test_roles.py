from __future__ import annotations

import ast
import logging
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pyarrow.parquet as pq
import pytest
from support.event_files import (
    Events,
    as_arrow,
    as_csv,
    as_folder,
    as_pandas,
    as_parquet,
    as_tsv,
    assert_same,
    rejection,
    seven,
)
from support.trained import TINY

import contig
from contig.data.events import EventStream
from contig.data.readers import read_events, streams
from contig.errors import DataError


@pytest.mark.parametrize(
    ("header", "bipartite"),
    [
        ("source,target,timestamp", False),
        ("User,Item,ts", True),
        ("user id,item-id,date", True),
        ("userId,itemId,Time", True),
        ("u,i,ts", False),
        ("from,to,DateTime", False),
        ("sender_id,receiver_id,time", False),
    ],
)
def test_columns_are_recognized(header: str, bipartite: bool, tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text(f"{header}\n1,2,3\n2,1,4\n")
    stream = read_events(path)
    assert_same(stream, EventStream.from_arrays([1, 2], [2, 1], [3, 4], bipartite=bipartite))


def test_the_first_of_several_candidates_is_used_and_the_rest_noted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "events.csv"
    path.write_text("user,src,item,dst,time,t,y,label\n9,1,8,2,7,3,1,0\n9,2,8,1,7,4,1,1\n")
    with caplog.at_level(logging.INFO, logger="contig"):
        stream = read_events(path)
    assert_same(stream, EventStream.from_arrays([1, 2], [2, 1], [3, 4], label=[0, 1]))
    assert len(stream.notices) == 1
    assert "ignored 4 columns: 'user', 'item', 'time', 'y'" in stream.notices[0]
    assert stream.notices[0] in caplog.messages


def test_named_columns_override_recognized_ones() -> None:
    table = pa.table(
        {"t": [1, 2], "src": [5, 6], "dst": [6, 5], "when": [4, 3], "boss": [7, 8], "w": [0.5, 2.0]}
    )
    stream = read_events(table, src="boss", t="WHEN", features=["w"])
    expected = EventStream.from_arrays([7, 8], [6, 5], [4, 3], edge_features=[[0.5], [2.0]])
    assert_same(stream, expected)
    assert [notice.split(":")[1].strip() for notice in stream.notices][1] == "ignored 2 columns"
    assert "The times are read from 'when', not from 't'." in stream.notices[1]
    both = pa.table({"src": [1, 2], "dst": [2, 1], "t": [3, 4], "time": [5, 6]})
    assert "The times are read" not in read_events(both, t="time").notices[0]
    assert_same(read_events(table, src="dst", dst="src"), EventStream.from_arrays([6, 5], [5, 6], [1, 2]))


@pytest.mark.parametrize(("given", "width"), [(None, 3), (["w"], 3), (["w", "x"], 3), (False, 0)])
def test_the_notice_says_how_to_use_all_columns(given: Any, width: int) -> None:
    table = pa.table({"src": [5, 6], "dst": [6, 5], "t": [1, 2], "w": [1.0, 2.0], "x": [3, 4], "y y": [5, 6]})
    (notice, *_) = [one for one in read_events(table, features=given).notices if "ignored" in one]
    advice = re.search(r"--features (.+) \(features=(\[.*?\])\)", notice)
    assert (advice is not None) == bool(width)
    if advice is not None:
        names = shlex.split(advice[1])[0].split(",")
        assert str(names) == advice[2]
        assert read_events(table, features=names).edge_width == width
        assert "to predict" not in notice.lower() or given is None


VECTORS, TIMES = [[1.0, 2.0], [3.0, 4.0]], pa.array([3, 4], pa.timestamp("s"))


@pytest.mark.parametrize(
    ("columns", "width"),
    [
        ({"features": VECTORS, "mood": [7, 8]}, 1),
        ({"f0": [1.0, 2.0], "mood": [7, 8], "vectors": VECTORS}, 2),
        ({"vectors": VECTORS, "mood": [7, 8]}, 1),
        ({"vectors": VECTORS, "more": VECTORS}, 2),
        ({"a,b": [1, 2], "c": [3, 4]}, 2),
        ({"place": [{"x": 1}, {"x": 2}], "tags": [["a"], ["b"]], "at": TIMES, "c": [3, 4]}, 1),
        ({"place": [{"x": 1}, {"x": 2}], "tags": [["a"], ["b"]], "at": TIMES}, None),
        ({"features": VECTORS, "more": VECTORS}, None),
    ],
)
def test_the_notice_suggests_only_what_is_accepted(columns: dict[str, Any], width: int | None) -> None:
    table = pa.table({"src": [5, 6], "dst": [6, 5], "t": [1, 2], **columns})
    (notice, *_) = [one for one in read_events(table).notices if "ignored" in one]
    advice = re.search(r"features=(\[.*?\])", notice)
    found = None if advice is None else read_events(table, features=ast.literal_eval(advice[1])).edge_width
    assert found == width
    flag = re.search(r"--features (\S+) \(", notice)
    assert (flag is None) == (advice is None or "a,b" in columns)
    assert flag is None or str(shlex.split(flag[1])[0].split(",")) == advice[1]


@pytest.mark.parametrize("suffix", ["csv", "parquet", ""])
def test_columns_that_name_the_rows_are_not_suggested(suffix: str, tmp_path: Path) -> None:
    def route(table: pa.Table, path: Path) -> Any:
        if not suffix:
            return table
        write = pyarrow.csv.write_csv if suffix == "csv" else pyarrow.parquet.write_table
        write(table, path / f"events.{suffix}")
        return path / f"events.{suffix}"

    rows = range(30)
    events = {"src": [i % 4 for i in rows], "dst": [i % 3 for i in rows], "t": list(rows)}
    names = {"order": [900 + i for i in rows], "code": [f"x{i}" for i in rows]}
    more = {"price": [i + 0.25 for i in rows], "shop": [i % 2 for i in rows], "gap": [*range(29), None]}
    (notice,) = read_events(route(pa.table({**events, **names, **more}), tmp_path)).notices
    assert "ignored 5 columns: 'order', 'code', 'price', 'shop', 'gap'" in notice
    assert "To use 'price', 'shop', 'gap' as features: --features price,shop,gap " in notice
    (bare,) = read_events(route(pa.table({**events, **names}), tmp_path)).notices
    assert "ignored 2 columns" in bare
    assert "--features" not in bare
    (short,) = read_events(route(pa.table({**events, **names}).slice(0, 19), tmp_path)).notices
    assert "--features order,code" in short, "of few rows a column may differ in each by chance"


def test_a_column_that_is_not_used_may_hold_anything(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    rows = [b"%d,7,%d,%d" % (i % 4, i, i) for i in range(200_000)]
    path.write_bytes(b"\n".join([b"src,dst,t,note", *rows, b"1,7,200000,\xff"]))  # not text
    assert len(read_events(path)) == 200_001


def test_a_named_column_is_not_recognized_for_another_role() -> None:
    table = pa.table({"i": [1, 2], "to": [2, 3], "t": [0, 1]})
    assert_same(read_events(table, src="i"), EventStream.from_arrays([1, 2], [2, 3], [0, 1]))


@pytest.mark.parametrize("route", [as_csv, as_tsv, as_parquet, as_folder, as_pandas, as_arrow])
def test_one_column_may_have_several_roles(route: Callable[[Events, Path], Any], tmp_path: Path) -> None:
    events = seven()
    stream = read_events(
        route(events, tmp_path), src="src", dst="dst", t="t", label="dst", features=["f1", "t"]
    )
    assert events.features is not None
    expected = replace(
        events,
        label=events.dst,
        features=[[row[1], t] for row, t in zip(events.features, events.t, strict=True)],
    )
    assert_same(stream, expected.stream())


def test_the_label_is_no_feature_and_each_feature_is_named_once() -> None:
    table = pa.table({"src": [5, 6], "dst": [6, 5], "t": [1, 2], "fraud": [0, 1], "price": [1.5, 2]})
    with pytest.raises(DataError, match=r"column 'fraud' holds the labels .* Leave it out of features="):
        read_events(table, label="fraud", features=["price", "fraud"])
    with pytest.raises(DataError, match=r"names column 'price' twice; name it once"):
        read_events(table, features=["price", "PRICE"])
    stream = read_events(table, label="fraud", features=True)
    assert stream.edge_width == 1
    assert read_events(table, features=["fraud"]).edge_width == 1  # not the label


def test_a_run_whose_label_was_a_feature_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier versions trained such runs; their new events have the same columns."""
    columns = {"src": list("ab") * 20, "dst": list("xxyy") * 10, "t": list(range(40)), "fraud": [0, 1] * 20}
    table, given = pa.table(columns), {"label": "fraud", "features": ["fraud"], "show": False}
    monkeypatch.setattr(streams, "check_features", lambda *_: None)
    run = contig.fit(table, out=tmp_path / "run", **given, **{**TINY, "epochs": 1})
    monkeypatch.undo()
    later = pa.table({**columns, "t": list(range(40, 80))})
    assert run.evaluate(data=later).result.transductive.events == 40
    assert run.observe(later) == 40
    with pytest.raises(DataError, match="'fraud' holds the labels"):
        contig.fit(table, **given)


@pytest.mark.parametrize("route", [as_csv, as_parquet, as_arrow])
def test_an_id_may_be_a_feature_too(route: Callable[[Events, Path], Any], tmp_path: Path) -> None:
    events = replace(seven(), src=[2**60 + 1, 4, 1, 2, 30, 1, 2], label=None, features=None)
    stream = read_events(route(events, tmp_path), features=["src", "dst"])
    both = [[float(s), float(d)] for s, d in zip(events.src, events.dst, strict=True)]
    assert_same(stream, replace(events, features=both).stream())


@pytest.mark.parametrize("route", [as_csv, as_parquet, as_arrow])
def test_a_feature_is_recognized_as_a_time_if_no_other_column_is(
    route: Callable[[Events, Path], Any], tmp_path: Path
) -> None:
    events = replace(seven(), label=None, features=None)
    times = [[float(t)] for t in events.t]
    stream = read_events(route(events, tmp_path), features=["t"])
    assert_same(stream, replace(events, features=times).stream())
    assert stream.notices == ()


def test_a_column_that_is_not_a_feature_is_recognized_first() -> None:
    table = pa.table({"src": [1, 2], "i": [5, 6], "to": [2, 3], "t": [0, 1], "ts": [7, 8], "y": [1, 0]})
    stream = read_events(table, features=["i", "t", "y"])
    expected = EventStream.from_arrays(
        [1, 2], [2, 3], [7, 8], edge_features=[[5, 0, 1], [6, 1, 0]]
    )  # y is a feature now, not a label
    assert_same(stream, expected)


def test_a_date_cannot_be_a_feature(tmp_path: Path) -> None:
    path = tmp_path / "dated.csv"
    path.write_text("src,dst,date\n1,2,2024-05-01\n2,1,2024-05-02\n")
    assert "line 2, column 'date': '2024-05-01' is not a number; features must be numbers" in rejection(
        path, features=["date"]
    )


def test_numbered_features_come_in_column_order() -> None:
    columns = {"src": [1], "dst": [2], "t": [3], "feat_2": [2.0], "f1": [1.0], "Feature0": [0.0], "f": [9.0]}
    stream = read_events(pa.table(columns))
    assert stream.edge_features is not None
    assert stream.edge_features.tolist() == [[2, 1, 0]]
    assert "'f'" in stream.notices[0]


def test_a_list_column_overrides_numbered_ones() -> None:
    base = {"src": [1, 2], "dst": [2, 3], "t": [3, 4]}
    stream = read_events(pa.table({**base, "f1": [0.0, 0.0], "msg": [[1, 2, 3], [4, 5, 6]]}))
    assert stream.edge_features is not None
    assert stream.edge_features.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert read_events(pa.table({**base, "msg": ["hello", "you"]})).edge_features is None


def test_missing_columns_are_reported_with_the_existing_ones(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("src,dst,moment_time\n1,2,3\n")
    message = rejection(path)
    assert message.startswith(str(path))
    assert "no column is recognized for the times (t, " in message
    assert "timestamp" in message
    assert "'src', 'dst', 'moment_time'" in message
    assert "t='moment_time', or on the command line --time moment_time." in message
    assert_same(read_events(path, t="moment_time"), EventStream.from_arrays([1], [2], [3]))
    message = rejection(path, t="moment_tim")
    assert "there is no column 'moment_tim' for the times." in message
    assert "Did you mean 'moment_time'?" in message


def test_all_missing_columns_are_reported_at_once(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("who,page,unix_times\na,b,3\n")
    message = rejection(path)
    for words in ("the sources (src, ", "the destinations (dst, ", "the times (t, "):
        assert words in message
    assert "src='who', dst='page', t='unix_times'" in message
    assert "--src who --dst page --time unix_times." in message
    assert "the sources" not in rejection(path, src="who")
    message = rejection(path, src="whom", dst="page", t="z")
    assert "no column 'whom' for the sources and no column 'z' for the times. Did you mean 'who'?" in message
    assert "no column 7 for the times. There are columns '0'" in rejection(path, src=0, dst=1, t=7)
    message = rejection(path, src="who", dst=1, t=2)
    assert "no column 'who' for the sources" in message
    assert "A position means that the file has no header" in message
    path.write_text("who page\n3 4\n")
    assert "events need three columns" in rejection(path, format="csv")
    path.write_text("3,4,5\n")
    assert "no column for 'src' and 'dst' and 't'" in rejection(path)


def test_columns_with_usual_names_are_suggested_but_not_as_features(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("user,item,timestamp,prices\n1,2,3,4\n")
    assert "Did you mean 'user'?" in rejection(path, src="usr")
    assert "Did you mean 'timestamp'?" in rejection(path, t="tiemstamp")
    assert "Did you mean 'prices'?" in rejection(path, features=["price"])
    assert "Did you mean" not in rejection(path, features=["timestamps"])


def test_columns_are_suggested_as_a_shell_takes_them(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("Tx ID,Booked At,Account No.,Merchant,Is Fraud?\n1,3,a,b,0\n")
    assert "--src 'Account No.' --dst Merchant --time 'Booked At'." in rejection(path)
    stream = read_events(path, src="Account No.", dst="Merchant", t="Booked At")
    assert "--features 'Tx ID,Is Fraud?' (features=['Tx ID', 'Is Fraud?'])" in stream.notices[0]


def test_ambiguous_columns_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("src,dst,t,T\n1,2,3,4\n")
    assert "2 columns are called 't'" in rejection(path)
    assert read_events(path, t="T").t.tolist() == [4]
    path.write_text("src,dst,t,t\n1,2,3,4\n")
    assert "2 columns are called 't', which was given for the times" in rejection(path, t="t")
    pq.write_table(pa.table([[1], [2], [3], [4]], names=["src", "dst", "t", "t"]), tmp_path / "twice.parquet")
    assert "two columns are called 't'" in rejection(tmp_path / "twice.parquet")
    assert "must be three columns" in rejection(path, src=1, dst=1, t=2)
