from __future__ import annotations

import csv
import gzip
import io
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contig.data.events import EventStream
from contig.data.readers import read_events
from contig.errors import ConfigError, DataError

duckdb = pytest.importorskip("duckdb")
pl = pytest.importorskip("polars")
JODIE_HEADER = "user_id,item_id,timestamp,state_label,comma_separated_list_of_features"


@dataclass(frozen=True)
class Events:
    """Plain Python columns, and the stream they are by the in-memory route."""

    src: Sequence[int | str]
    dst: Sequence[int | str]
    t: Sequence[int | float]
    label: Sequence[int] | None = None
    features: Sequence[Sequence[float]] | None = None

    def stream(self, bipartite: bool | None = None) -> EventStream:
        return EventStream.from_arrays(
            list(self.src),
            list(self.dst),
            np.array(self.t),
            label=self.label,
            edge_features=self.features,
            bipartite=bipartite,
        )

    def columns(self) -> dict[str, Sequence[Any]]:
        columns: dict[str, Sequence[Any]] = {"src": self.src, "dst": self.dst, "t": self.t}
        if self.label is not None:
            columns["label"] = self.label
        for i, feature in enumerate(zip(*(self.features or ()), strict=True)):
            columns[f"f{i}"] = feature
        return columns

    def table(self) -> pa.Table:
        return pa.table(dict(self.columns()))

    def rows(self) -> list[list[str]]:
        return [list(map(repr_number, row)) for row in zip(*self.columns().values(), strict=True)]


def repr_number(value: object) -> str:
    return value if isinstance(value, str) else repr(value)


def separated(events: Events, delimiter: str) -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter).writerows([list(events.columns()), *events.rows()])
    return text.getvalue()


# Each way of handing the same events over: writes below a folder, returns what read_events is given.


def as_csv(events: Events, folder: Path) -> Any:
    path = folder / "events.csv"
    path.write_text(separated(events, ","), encoding="utf-8", newline="")
    return path


def as_tsv(events: Events, folder: Path) -> Any:
    path = folder / "events.tsv"
    path.write_text(separated(events, "\t"), encoding="utf-8", newline="")
    return path


def as_gzip(events: Events, folder: Path) -> Any:
    path = folder / "events.csv.gz"
    path.write_bytes(gzip.compress(separated(events, ",").encode(), mtime=0))
    return path


def as_parquet(events: Events, folder: Path) -> Any:
    path = folder / "events.parquet"
    pq.write_table(events.table(), path, row_group_size=5)
    return path


def as_parquet_list(events: Events, folder: Path) -> Any:
    table = events.table().select(["src", "dst", "t"])
    if events.label is not None:
        table = table.append_column("label", pa.array(events.label))
    if events.features is not None:
        lists = pa.array(events.features, pa.list_(pa.float64(), len(events.features[0])))
        table = table.append_column("edge_features", lists)
    path = folder / "lists.parquet"
    pq.write_table(table, path)
    return str(path)


def as_folder(events: Events, folder: Path) -> Any:
    parts = folder / "parts"
    parts.mkdir(exist_ok=True)
    table, cut = events.table(), len(events.src) // 3 + 1
    pq.write_table(table.slice(cut), parts / "part-1.parquet")
    pq.write_table(table.slice(0, cut), parts / "part-0.parquet")
    (parts / "_SUCCESS").touch()
    return parts


def as_pandas(events: Events, folder: Path) -> Any:
    return pd.DataFrame({name: list(values) for name, values in events.columns().items()})


def as_polars(events: Events, folder: Path) -> Any:
    return pl.DataFrame({name: list(values) for name, values in events.columns().items()})


def as_duckdb(events: Events, folder: Path) -> Any:
    connection = duckdb.connect()
    connection.register("events", events.table())
    return connection.sql("select * from events")


def as_arrow(events: Events, folder: Path) -> Any:
    return events.table()


def as_reader(events: Events, folder: Path) -> Any:
    return events.table().to_reader(max_chunksize=3)


ROUTES: list[Callable[[Events, Path], Any]] = [
    *(as_csv, as_tsv, as_gzip, as_parquet, as_parquet_list, as_folder),
    *(as_pandas, as_polars, as_duckdb, as_arrow, as_reader),
]


def assert_same(stream: EventStream, expected: EventStream) -> None:
    assert stream.equals(expected)
    assert stream.ids.labels.tolist() == expected.ids.labels.tolist()
    assert stream.ids.labels.dtype.kind == expected.ids.labels.dtype.kind
    assert stream.t.dtype == expected.t.dtype
    assert stream.fingerprint() == expected.fingerprint()


names = st.text(st.sampled_from("ab,\"'é#-_ 中7"), max_size=4).map(lambda tail: f"n{tail}")
words = names.map(lambda name: name.replace(" ", "."))
whole_times = st.integers(-(2**60), 2**60)
real_times = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def event_lists(
    draw: st.DrawFn,
    ids: Sequence[st.SearchStrategy[Any]],
    labels: bool | None = None,
    width: int | None = None,
) -> Events:
    n = draw(st.integers(1, 14))
    id_of = draw(st.sampled_from(ids))

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=n, max_size=n))

    with_label = draw(st.booleans()) if labels is None else labels
    feature_count = draw(st.integers(0, 3)) if width is None else width
    row = st.lists(
        st.floats(width=32, allow_nan=False, allow_infinity=False),
        min_size=feature_count,
        max_size=feature_count,
    )
    return Events(
        src=column(id_of),
        dst=column(id_of),
        t=column(draw(st.sampled_from([whole_times, real_times, st.integers(0, 3)]))),
        label=column(st.integers(0, 5)) if with_label else None,
        features=column(row) if feature_count else None,
    )


numbers = st.integers(-(2**62), 2**62)
few = st.integers(0, 5)


@pytest.mark.parametrize("route", ROUTES)
def test_what_is_written_is_read_back(
    route: Callable[[Events, Path], Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("written")

    @settings(max_examples=40, deadline=None)
    @given(events=event_lists([numbers, few, names]))
    def check(events: Events) -> None:
        assert_same(read_events(route(events, folder)), events.stream())

    check()


def test_snap_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "events.txt"

    @settings(max_examples=60, deadline=None)
    @given(events=event_lists([numbers, few, words], labels=False, width=0), separator=st.sampled_from(" \t"))
    def check(events: Events, separator: str) -> None:
        lines = [separator.join(row) for row in events.rows()]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        assert_same(read_events(path, format="snap"), events.stream())

    check()


def test_jodie_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"

    @settings(max_examples=60, deadline=None)
    @given(events=event_lists([few, numbers, names], labels=True))
    def check(events: Events) -> None:
        text = io.StringIO(JODIE_HEADER + "\n")
        text.seek(0, io.SEEK_END)
        csv.writer(text).writerows(events.rows())
        path.write_text(text.getvalue(), encoding="utf-8", newline="")
        assert_same(read_events(path), events.stream(bipartite=True))

    check()


def seven() -> Events:
    """Seven events between four sources and three destinations that share the numbers 1 and 2."""
    return Events(
        src=[1, 4, 1, 2, 30, 1, 2],
        dst=[2, 1, 9, 2, 1, 2, 9],
        t=[10, 12, 12, 15, 15, 15, 20],
        label=[0, 0, 1, 0, 0, 1, 0],
        features=[[0.5, i / 3] for i in range(7)],
    )


def test_every_form_gives_one_stream_and_one_fingerprint(tmp_path: Path) -> None:
    streams = {route.__name__: read_events(route(seven(), tmp_path)) for route in ROUTES}
    expected = seven().stream()
    for name, stream in streams.items():
        assert stream.equals(expected), name
    assert len({stream.fingerprint() for stream in streams.values()}) == 1


def test_jodie_equals_a_table_of_users_and_items(tmp_path: Path) -> None:
    events = seven()
    path = tmp_path / "jodie.csv"
    path.write_text("\n".join([JODIE_HEADER, *(",".join(row) for row in events.rows())]))
    jodie = read_events(path)
    table = events.table().rename_columns(["user_id", "item_id", "timestamp", "state_label", "f1", "f2"])
    assert jodie.equals(read_events(table))
    assert jodie.bipartite
    assert jodie.num_nodes == 4 + 3  # 1 and 2 live on both sides
    assert jodie.ids.find(2, side="src") != jodie.ids.find(2, side="dst")
    assert jodie.notices == ()


def test_snap_equals_csv_without_label_and_features(tmp_path: Path) -> None:
    events = replace(seven(), label=None, features=None)
    path = tmp_path / "snap.txt"
    lines = [f"  {s}\t {d}   {t} " for s, d, t in zip(events.src, events.dst, events.t, strict=True)]
    path.write_text(
        "# a comment\r\n#\r\n\r\n" + "\r\n".join(lines[:3]) + "\r\n  # more\r\n" + "\r\n".join(lines[3:])
    )
    assert_same(read_events(path), read_events(as_csv(events, tmp_path)))


# --- JODIE, SNAP and headerless files in particular


def test_jodie_with_one_constant_feature_keeps_it(tmp_path: Path) -> None:
    path = tmp_path / "lastfm.csv"
    path.write_text(f"{JODIE_HEADER}\n0,0,0.0,0,0\n0,1,3.5,0,0\n1,0,4.0,0,0\n")
    stream = read_events(path)
    assert stream.edge_features is not None
    assert stream.edge_features.tolist() == [[0], [0], [0]]
    assert stream.t.tolist() == [0, 3.5, 4]


@pytest.mark.parametrize("end", ["", ","])
def test_jodie_without_features(end: str, tmp_path: Path) -> None:
    path = tmp_path / "bare.csv"
    path.write_text(f"{JODIE_HEADER}\n5,5,1,0{end}\n6,5,2,1{end}\n")
    stream = read_events(path)
    assert stream.edge_features is None
    assert stream.label is not None
    assert stream.label.tolist() == [0, 1]
    assert stream.ids.labels.tolist() == [5, 6, 5]


def test_jodie_under_another_header_is_recognised_by_its_wider_rows(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text("user,item,time,label,features\n1,1,5,0,0.1,0.2,0.3\n2,1,6,1,0.4,0.5,0.6\n")
    stream = read_events(path)
    assert stream.edge_width == 3
    assert stream.bipartite
    assert read_events(path, features=[]).edge_width == 0


def test_jodie_without_its_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "headless.csv"
    path.write_text("1,1,5,0,0.5\n2,1,6,1,0.5\n")
    assert f"{path}, line 1: this is an event" in refusal(path, format="jodie")


def test_a_csv_with_a_long_first_row_is_not_taken_for_jodie(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text("src,dst,t\n1,2,3,4\n1,2,3\n")
    with pytest.raises(DataError, match=r"long\.csv, line 2: 4 fields, expected 3"):
        read_events(path)


def test_csv_without_header_by_position(tmp_path: Path) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text("6,2,4,1289241911.72836\n6,5,-2,1289241941.5\n1,15,1,1289243140.0\n")
    stream = read_events(path, src=0, dst=1, t=3, features=[2])
    expected = EventStream.from_arrays(
        [6, 6, 1], [2, 5, 15], [1289241911.72836, 1289241941.5, 1289243140.0], edge_features=[[4], [-2], [1]]
    )
    assert_same(stream, expected)
    with pytest.raises(DataError, match=r"no header.*4 fields.*src=0, dst=1, t=2"):
        read_events(path)
    with pytest.raises(DataError, match=r"t=4 is no column; it has 4"):
        read_events(path, src=0, dst=1, t=4)


def test_blank_separated_lines_of_another_width_by_position(tmp_path: Path) -> None:
    path = tmp_path / "weighted.txt"
    path.write_text("# src dst weight t\n1 2 0.5 10\n2 3 0.25 11\n")
    with pytest.raises(DataError, match="4 fields"):
        read_events(path)
    stream = read_events(path, src=0, dst=1, features=[2], t=3)
    assert_same(stream, EventStream.from_arrays([1, 2], [2, 3], [10, 11], edge_features=[[0.5], [0.25]]))


def test_a_header_read_by_position_is_named(tmp_path: Path) -> None:
    path = tmp_path / "named.csv"
    path.write_text("a,b,when\n1,2,3\n")
    with pytest.raises(DataError, match=r"named\.csv, line 1, column '2': 'when' is not a time"):
        read_events(path, src=0, dst=1, t=2)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", "src\tdst\tt\n1\t2\t3\n"),  # tabs and a header under a neutral suffix
        ("a.dat", "src,dst,t\n1,2,3\n"),
        ("a", "1 2 3\n"),
        ("a.tsv", "SRC\tDst\tT\n1\t2\t3\n"),
        ("a.csv", "\ufeffsrc,dst,t\n1,2,3\n"),  # a byte order mark, as spreadsheets write
        ("a.csv", "\n\nsrc,dst,t\n\n1,2,3\n\n"),
        ("a.csv", 'src,dst,t\r\n"1","2","3"\r\n'),
        ("a.edges", "1\t2\t3\n"),
    ],
)
def test_the_form_is_found_out(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    assert_same(read_events(tmp_path / name), EventStream.from_arrays([1], [2], [3]))
    (tmp_path / "z.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    assert_same(read_events(tmp_path / "z.gz"), EventStream.from_arrays([1], [2], [3]))


def test_parquet_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    path = as_parquet(seven(), tmp_path).rename(tmp_path / "events.data")
    assert_same(read_events(path), seven().stream())


# --- columns


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
def test_columns_are_recognised(header: str, bipartite: bool, tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text(f"{header}\n1,2,3\n2,1,4\n")
    stream = read_events(path)
    assert_same(stream, EventStream.from_arrays([1, 2], [2, 1], [3, 4], bipartite=bipartite))


def test_the_first_of_several_candidates_wins_and_the_rest_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "events.csv"
    path.write_text("user,src,item,dst,time,t,y,label\n9,1,8,2,7,3,1,0\n9,2,8,1,7,4,1,1\n")
    with caplog.at_level(logging.INFO, logger="contig"):
        stream = read_events(path)
    assert_same(stream, EventStream.from_arrays([1, 2], [2, 1], [3, 4], label=[0, 1]))
    assert len(stream.notices) == 1
    assert "ignored 4 column(s): 'user', 'item', 'time', 'y'" in stream.notices[0]
    assert stream.notices[0] in caplog.messages


def test_named_columns_win_over_recognised_ones() -> None:
    table = pa.table(
        {"t": [1, 2], "src": [5, 6], "dst": [6, 5], "when": [4, 3], "boss": [7, 8], "w": [0.5, 2.0]}
    )
    stream = read_events(table, src="boss", t="WHEN", features=["w"])
    expected = EventStream.from_arrays([7, 8], [6, 5], [4, 3], edge_features=[[0.5], [2.0]])
    assert_same(stream, expected)
    assert [notice.split(":")[1].strip() for notice in stream.notices][1] == "ignored 2 column(s)"
    assert_same(read_events(table, src="dst", dst="src"), EventStream.from_arrays([6, 5], [5, 6], [1, 2]))


def test_a_named_column_is_not_recognised_a_second_time() -> None:
    table = pa.table({"i": [1, 2], "to": [2, 3], "t": [0, 1]})
    assert_same(read_events(table, src="i"), EventStream.from_arrays([1, 2], [2, 3], [0, 1]))


@pytest.mark.parametrize("route", [as_csv, as_tsv, as_parquet, as_folder, as_pandas, as_arrow])
def test_one_column_may_play_several_parts(route: Callable[[Events, Path], Any], tmp_path: Path) -> None:
    events = seven()
    stream = read_events(
        route(events, tmp_path), src="src", dst="dst", t="t", label="t", features=["f1", "t"]
    )
    assert events.features is not None
    expected = replace(
        events,
        label=[int(t) for t in events.t],
        features=[[row[1], t] for row, t in zip(events.features, events.t, strict=True)],
    )
    assert_same(stream, expected.stream())


@pytest.mark.parametrize("route", [as_csv, as_parquet, as_arrow])
def test_an_id_may_be_a_feature_too(route: Callable[[Events, Path], Any], tmp_path: Path) -> None:
    events = replace(seven(), src=[2**60 + 1, 4, 1, 2, 30, 1, 2], label=None, features=None)
    stream = read_events(route(events, tmp_path), features=["src", "dst"])
    both = [[float(s), float(d)] for s, d in zip(events.src, events.dst, strict=True)]
    assert_same(stream, replace(events, features=both).stream())


@pytest.mark.parametrize("route", [as_csv, as_parquet, as_arrow])
def test_a_feature_is_recognised_as_a_time_or_an_id_where_nothing_else_is(
    route: Callable[[Events, Path], Any], tmp_path: Path
) -> None:
    events = replace(seven(), label=None, features=None)
    times = [[float(t)] for t in events.t]
    stream = read_events(route(events, tmp_path), features=["t"])
    assert_same(stream, replace(events, features=times).stream())
    assert stream.notices == ()


def test_a_column_that_is_no_feature_is_recognised_first() -> None:
    table = pa.table({"src": [1, 2], "i": [5, 6], "to": [2, 3], "t": [0, 1], "ts": [7, 8], "y": [1, 0]})
    stream = read_events(table, features=["i", "t", "y"])
    expected = EventStream.from_arrays(
        [1, 2], [2, 3], [7, 8], edge_features=[[5, 0, 1], [6, 1, 0]]
    )  # and y, a feature now, is no label
    assert_same(stream, expected)


def test_a_date_is_no_feature(tmp_path: Path) -> None:
    path = tmp_path / "dated.csv"
    path.write_text("src,dst,date\n1,2,2024-05-01\n2,1,2024-05-02\n")
    assert "column 'date' holds date32[day] values; labels and features must be" in refusal(
        path, features=["date"]
    )


def test_numbered_features_come_in_column_order() -> None:
    columns = {"src": [1], "dst": [2], "t": [3], "feat_2": [2.0], "f1": [1.0], "Feature0": [0.0], "f": [9.0]}
    stream = read_events(pa.table(columns))
    assert stream.edge_features is not None
    assert stream.edge_features.tolist() == [[2, 1, 0]]
    assert "'f'" in stream.notices[0]


def test_a_list_column_wins_over_numbered_ones_and_text_called_msg_is_no_feature() -> None:
    base = {"src": [1, 2], "dst": [2, 3], "t": [3, 4]}
    stream = read_events(pa.table({**base, "f1": [0.0, 0.0], "msg": [[1, 2, 3], [4, 5, 6]]}))
    assert stream.edge_features is not None
    assert stream.edge_features.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert read_events(pa.table({**base, "msg": ["hello", "you"]})).edge_features is None


def test_bipartite_as_given_wins() -> None:
    table = pa.table({"user": [1, 2], "item": [2, 3], "t": [0, 1]})
    assert read_events(table).num_nodes == 4
    assert read_events(table, bipartite=False).num_nodes == 3
    assert not read_events(table, bipartite=False).bipartite


# --- ids


def test_text_ids_are_ordered_as_from_arrays_orders_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    letters = np.array(list("azAZ09é中~😀 "))
    src, dst = (
        ["x" + "".join(rng.choice(letters, rng.integers(0, 4))) for _ in range(500)] for _ in range(2)
    )
    events = Events(src, dst, list(range(500)))
    for route in ROUTES:
        assert_same(read_events(route(events, tmp_path)), events.stream())


@pytest.mark.parametrize(
    ("written", "labels"),
    [
        (["007", "7"], ["007", "7"]),
        (["0x1f", "31"], ["0x1f", "31"]),
        (["true", "false"], ["false", "true"]),
        (["2020-01-01", "2020-01-02"], ["2020-01-01", "2020-01-02"]),
        (["12345678901234567890", "12345678901234567891"], ["12345678901234567890", "12345678901234567891"]),
        (["NA", "NA"], ["NA"]),
        (["1.0", "2.0"], [1, 2]),
        (["-3", "12"], [-3, 12]),
        (["0", "10"], [0, 10]),
    ],
)
def test_ids_in_text_keep_their_spelling_unless_they_are_numbers(
    written: list[str], labels: list[int | str], tmp_path: Path
) -> None:
    path = tmp_path / "events.csv"
    path.write_text("src,dst,t\n" + "".join(f"{name},{written[0]},1\n" for name in written))
    assert read_events(path, bipartite=False).ids.labels.tolist() == labels


def test_text_that_begins_after_many_numbers_is_still_an_id(tmp_path: Path) -> None:
    path = tmp_path / "late.csv"
    ids = [*map(str, range(1, 60_001)), "late"]
    path.write_text("src,dst,t\n" + "".join(f"{x},{x},{i}\n" for i, x in enumerate(ids)))
    stream = read_events(path)
    assert stream.num_nodes == 60_001
    assert stream.ids.labels[stream.src].tolist() == ids


def test_categorical_ids_of_any_kind() -> None:
    names = ["b", "a", "b", "c"]
    frame = pd.DataFrame({"src": pd.Categorical(names, categories=["z", "c", "b", "a"]), "t": range(4)})
    frame["dst"] = pd.Categorical([3, 1, 2, 1])
    expected = EventStream.from_arrays(names, [3, 1, 2, 1], range(4))
    assert_same(read_events(frame), expected)
    assert_same(read_events(pl.from_pandas(frame)), expected)


def test_ids_of_other_number_types() -> None:
    table = pa.table(
        {
            "src": pa.array([5, 6], pa.uint8()),
            "dst": pa.array([7.0, 5.0], pa.float32()),
            "t": pa.array([1.5, 2.25], pa.float16()) if hasattr(pa, "float16") else [1.5, 2.25],
        }
    )
    assert_same(read_events(table), EventStream.from_arrays([5, 6], [7, 5], [1.5, 2.25]))
    decimals = duckdb.sql("select 5::hugeint as src, 7::decimal(9, 0) as dst, 1.25 as t")
    assert_same(read_events(decimals), EventStream.from_arrays([5], [7], [1.25]))


# --- times

DAY = 86_400


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (["1970-01-02", "1970-01-03"], [DAY, 2 * DAY]),
        (["1970-01-01 00:00:05", "1970-01-02"], [5, DAY]),
        (["1970-01-01T00:00:05Z", "1970-01-01T02:00:06+02:00"], [5, 6]),
        (["1970-01-01T00:00:05", "1970-01-01T02:00:06+02:00"], [5, 6]),  # naive counts as UTC
        (["1970-01-01T00:00:05.25", "1970-01-01T00:00:06.5"], [5.25, 6.5]),
        (["1969-12-31T23:59:59.5Z", "1970-01-01T00:00:00Z"], [-0.5, 0.0]),
        (["1600-01-01T00:00:00.5", "2500-01-01T00:00:00"], [-11676095999.5, 16725225600.0]),
        (["5", "6.5"], [5.0, 6.5]),
        (["1700000001", "1700000002"], [1700000001, 1700000002]),
        (["1e3", "2e3"], [1000.0, 2000.0]),
    ],
)
def test_written_times_become_seconds(
    written: list[str], seconds: list[int] | list[float], tmp_path: Path
) -> None:
    expected = EventStream.from_arrays([1, 2], [2, 3], seconds)
    path = tmp_path / "events.csv"
    path.write_text("src,dst,t\n" + "".join(f"{i + 1},{i + 2},{t}\n" for i, t in enumerate(written)))
    assert_same(read_events(path), expected)
    assert_same(read_events(pa.table({"src": [1, 2], "dst": [2, 3], "t": written})), expected)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_arrow_moments_become_seconds(unit: str) -> None:
    values = pa.array(np.array(["2001-09-09T01:46:40", "2001-09-09T01:46:41"], dtype=f"datetime64[{unit}]"))
    for moments in (
        values,
        values.cast(pa.timestamp(unit, "Europe/Vienna")),
    ):  # an instant, whatever the zone
        stream = read_events(pa.table({"src": [1, 2], "dst": [2, 3], "t": moments}))
        assert stream.t.dtype == np.int64
        assert stream.t.tolist() == [10**9, 10**9 + 1]


def test_nanoseconds_are_cut_to_microseconds() -> None:
    moments = pa.array([1_500_000_999, 2_000_000_001], pa.timestamp("ns"))
    assert read_events(pa.table({"src": [1, 2], "dst": [2, 3], "t": moments})).t.tolist() == [1.5, 2.0]


def test_dates_and_frames_with_moments() -> None:
    base = {"src": [1, 2], "dst": [2, 3]}
    days = pa.array([1, 3], pa.date32())
    assert read_events(pa.table({**base, "date": days})).t.tolist() == [DAY, 3 * DAY]
    assert read_events(pa.table({**base, "date": days.cast(pa.date64())})).t.tolist() == [DAY, 3 * DAY]
    local = pd.to_datetime(["1970-01-01 02:00", "1970-01-01 03:00:00.5"], format="ISO8601").tz_localize(
        "Asia/Kolkata"
    )
    expected = [2 * 3600 - 19_800, 3 * 3600 + 0.5 - 19_800]
    assert read_events(pd.DataFrame({**base, "ts": local})).t.tolist() == expected
    naive = pl.DataFrame({**base, "ts": ["1970-01-01 00:00:07", "1970-01-01 00:00:09"]})
    assert read_events(naive.with_columns(pl.col("ts").str.to_datetime())).t.tolist() == [7, 9]
    zoned = duckdb.sql("select 1 as src, 2 as dst, timestamptz '1970-01-01 01:00:00+01' as t")
    assert read_events(zoned).t.tolist() == [0]


def test_float32_times_are_widened() -> None:
    stream = read_events(pa.table({"src": [1, 2], "dst": [2, 3], "t": pa.array([0.5, 1.5], pa.float32())}))
    assert stream.t.dtype == np.float64


# --- what comes out


def test_unsorted_rows_are_sorted_and_told(tmp_path: Path) -> None:
    events = Events(["b", "a", "c"], ["x", "y", "z"], [5, 1, 3])
    stream = read_events(as_csv(events, tmp_path))
    assert stream.ids.labels[stream.src].tolist() == ["a", "c", "b"]
    assert "sorted by time" in stream.notices[0]


def test_streams_read_from_files_are_frozen(tmp_path: Path) -> None:
    events = replace(seven(), src=list("abcdefg"))
    for route in ROUTES:
        stream = read_events(route(events, tmp_path))
        for column in (
            stream.src,
            stream.dst,
            stream.t,
            stream.label,
            stream.edge_features,
            stream.ids.labels,
        ):
            assert column is not None
            assert not column.flags.writeable


def test_labels_may_be_booleans_or_whole_floats() -> None:
    base = {"src": [1, 2], "dst": [2, 3], "t": [0, 1]}
    for labels in ([True, False], [1.0, 0.0], ["1", "0"]):
        stream = read_events(pa.table({**base, "label": labels}))
        assert stream.label is not None
        assert stream.label.dtype == np.int64
        assert stream.label.tolist() == [1, 0]


def test_features_take_the_same_values_from_text_and_from_parquet(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(size=(4_000, 5)) * 10.0 ** rng.integers(-20, 20, size=(4_000, 5))
    n = len(values)
    events = Events([1] * n, [2] * n, list(range(n)), features=values.tolist())
    streams = [read_events(route(events, tmp_path)) for route in (as_csv, as_parquet, as_parquet_list)]
    for stream in streams:
        assert stream.edge_features is not None
        np.testing.assert_array_equal(stream.edge_features, values.astype(np.float32))


# --- refusals: the message names file, place, column, value and cure

GOOD = ["src,dst,t,label,f1", "1,2,10,0,0.5", "2,3,11,1,0.25", "3,1,12,0,0.75", "1,3,13,0,1"]


def refusal(path: Any, **arguments: Any) -> str:
    with pytest.raises(DataError) as caught:
        read_events(path, **arguments)
    return str(caught.value)


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        (",3,12,0,0.75", ["column 'src'", "the id is missing", "fill it in or remove the event"]),
        ("3,NA,12,0,0.75", ["column 'dst'", "the id is missing"]),
        ("1.5,3,12,0,0.75", ["column 'src'", "1.5", "whole numbers or text"]),
        ("3,1,,0,0.75", ["column 't'", "the time is missing"]),
        ("3,1,inf,0,0.75", ["column 't'", "inf", "is not a time", "finite number"]),
        ("3,1,nan,0,0.75", ["column 't'", "the time is missing"]),
        ("3,1,soon,0,0.75", ["column 't'", "'soon'", "is not a time", "ISO 8601"]),
        ("3,1,12,maybe,0.75", ["column 'label'", "'maybe'", "is not a whole number", "0 and 1"]),
        ("3,1,12,0.5,0.75", ["column 'label'", "0.5", "is not a whole number"]),
        ("3,1,12,,0.75", ["column 'label'", "the label is missing"]),
        ("3,1,12,0,heavy", ["column 'f1'", "'heavy'", "is not a number"]),
        ("3,1,12,0,", ["column 'f1'", "the feature is missing", "fill missing features"]),
        ("3,1,12,0,1e300", ["column 'f1'", "1e+300", "is not a finite float32", "scale"]),
        ("3,1,12,0", ["4 fields, expected 5", "'3,1,12,0'", "complete the line or remove it"]),
        ("3,1,12,0,0.75,9", ["6 fields, expected 5"]),
        ("3", ["1 fields, expected 5", "'3'"]),
    ],
)
@pytest.mark.parametrize("form", ["csv", "tsv", "gz", "jodie", "late"])
def test_a_bad_line_is_named(line: str, parts: list[str], form: str, tmp_path: Path) -> None:
    many = [f"{i},{i},{i},0,0.5" for i in range(1, 20_000)] if form == "late" else []  # beyond the first look
    lines = [GOOD[0], "", *many, GOOD[1], GOOD[2], line, *GOOD[4:]]
    path = tmp_path / ("events.tsv" if form == "tsv" else "events.csv")
    text = "\n".join(lines)
    if form == "jodie":
        text = text.replace(GOOD[0], JODIE_HEADER)
    path.write_text(text.replace(",", "\t") if form == "tsv" else text)
    if form == "gz":
        path.write_bytes(gzip.compress(text.encode(), mtime=0))
    message = refusal(path)
    assert message.startswith(f"{path}, line {lines.index(line) + 1}")
    columns = {"'src'": "'user_id'", "'dst'": "'item_id'", "'t'": "'timestamp'", "'label'": "'state_label'"}
    for part in parts:
        name = part.removeprefix("column ")
        assert (f"column {columns[name]}" if form == "jodie" and name in columns else part) in message


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("1 2", ["2 fields, expected 3"]),
        ("1 2 3 4", ["4 fields, expected 3"]),
        ("1 2 later", ["column 't'", "'later'", "is not a time"]),
        ("1 2 inf", ["column 't'", "inf", "is not a time"]),
    ],
)
def test_a_bad_line_of_a_snap_file_is_named(line: str, parts: list[str], tmp_path: Path) -> None:
    path = tmp_path / "snap.txt"
    path.write_text(f"# header\n1 2 10\n\n2  3\t11\n# more\n{line}\n3 4 12\n")
    message = refusal(path)
    assert message.startswith(f"{path}, line 6")
    assert all(part in message for part in parts)


@pytest.mark.parametrize(
    ("column", "values", "parts"),
    [
        ("src", [1, None, 3], ["row 1 (counted from 0)", "column 'src'", "the id is missing"]),
        ("src", ["a", "b", None], ["row 2", "column 'src'", "the id is missing"]),
        ("dst", ["a", "", "b"], ["row 1", "column 'dst'", "''", "give the event an id"]),
        ("dst", ["a", "b", "b\0"], ["row 2", "column 'dst'", "'b\\x00'"]),
        ("dst", [1.0, 2.5, 3.0], ["row 1", "column 'dst'", "2.5"]),
        ("dst", pa.array([1, 2**63, 3], pa.uint64()), ["row 1", "9223372036854775808", "64-bit"]),
        ("dst", pa.array([b"a", b"b", b"\xff\xfe"]), ["row 2", "b'\\xff\\xfe'", "UTF-8"]),
        ("dst", [[1], [2], [3]], ["column 'dst'", "list", "integers or text"]),
        ("dst", [True, False, True], ["column 'dst'", "bool", "integers or text"]),
        ("t", [0.0, float("nan"), 1.0], ["row 1", "column 't'", "nan", "is not a time"]),
        ("t", [0.0, 1.0, float("-inf")], ["row 2", "column 't'", "-inf"]),
        ("t", [0, None, 2], ["row 1", "column 't'", "the time is missing"]),
        ("t", ["2020-01-01", "2020-13-01", "2020-01-02"], ["row 1", "'2020-13-01'", "ISO 8601"]),
        ("t", ["1", "2", "x"], ["row 2", "'x'", "is not a time"]),
        ("t", pa.array([1, 2, 3], pa.time32("s")), ["column 't'", "time32", "times must be"]),
        ("label", [0, 1, None], ["row 2", "column 'label'", "the label is missing"]),
        ("label", ["0", "bad", "1"], ["row 1", "column 'label'", "'bad'"]),
        ("f1", [0.0, 1.0, None], ["row 2", "column 'f1'", "missing"]),
        ("f1", ["0", "x", "1"], ["row 1", "column 'f1'", "'x'", "is not a number"]),
        ("features", [[1.0], [2.0], [3.0, 4.0]], ["row 2", "column 'features'", "2 features", "has 1"]),
        ("features", [[1.0, 2.0], None, [3.0, 4.0]], ["row 1", "the feature list is missing"]),
        ("features", [[1.0, 2.0], [3.0, float("inf")], [3.0, 4.0]], ["row 1", "feature 1 of [3.0, inf]"]),
        ("features", [["0", "1"], ["2", "a"], ["3", "4"]], ["row 1", "'a'", "is not a number"]),
    ],
)
def test_a_bad_row_of_a_table_or_parquet_file_is_named(
    column: str, values: Any, parts: list[str], tmp_path: Path
) -> None:
    table = pa.table({"src": [1, 2, 3], "dst": [2, 3, 4], "t": [0, 1, 2]} | {column: values})
    path = tmp_path / "events.parquet"
    pq.write_table(table, path)
    for source, origin in ((table, "pyarrow Table"), (path, str(path))):
        message = refusal(source)
        assert message.startswith(origin)
        for part in parts:
            assert part in message


def test_moments_beyond_64_bit_microseconds_are_refused() -> None:
    table = pa.table({"src": [1, 2], "dst": [2, 3], "t": pa.array([1, 2**60], pa.timestamp("s"))})
    assert "row 1 (counted from 0), column 't': 1152921504606846976 is too far from 1970" in refusal(table)


def test_a_bad_row_of_a_folder_is_named_by_its_own_file(tmp_path: Path) -> None:
    good = pa.table({"src": [1, 2, 3], "dst": [2, 3, 4], "t": [0.0, 1.0, 2.0]})
    bad = pa.table({"src": [1, 2], "dst": [2, 3], "t": [3.0, float("nan")]})
    pq.write_table(good, tmp_path / "a.parquet")
    pq.write_table(bad, tmp_path / "b.parquet")
    assert refusal(tmp_path).startswith(f"{tmp_path / 'b.parquet'}, row 1 (counted from 0), column 't': nan")


def test_files_of_a_folder_must_agree(tmp_path: Path) -> None:
    pq.write_table(pa.table({"src": [1], "dst": [2], "t": [0]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"src": [1], "to": [2], "t": [0]}), tmp_path / "b.parquet")
    message = refusal(tmp_path)
    assert message.startswith(str(tmp_path / "b.parquet"))
    assert "no column 'dst'" in message
    assert "'to'" in message
    pq.write_table(pa.table({"src": [1], "dst": ["x"], "t": [0]}), tmp_path / "b.parquet")
    assert "same type in every file" in refusal(tmp_path)


def test_integer_widths_may_differ_between_files(tmp_path: Path) -> None:
    pq.write_table(pa.table({"src": pa.array([1], pa.int32()), "dst": [2], "t": [0]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"src": [2**40], "dst": [1], "t": [1.5]}), tmp_path / "b.parquet")
    assert_same(read_events(tmp_path), EventStream.from_arrays([1, 2**40], [2, 1], [0, 1.5]))


def test_missing_columns_are_told_with_what_there_is(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("src,dst,moment_time\n1,2,3\n")
    message = refusal(path)
    assert message.startswith(str(path))
    assert "no column is called 't'" in message
    assert "timestamp" in message
    assert "'src', 'dst', 'moment_time'" in message
    assert "t='moment_time'; on the command line --time moment_time." in message
    assert_same(read_events(path, t="moment_time"), EventStream.from_arrays([1], [2], [3]))
    message = refusal(path, t="moment_tim")
    assert "t='moment_tim'" in message
    assert "Did you mean 'moment_time'?" in message


def test_ambiguous_columns_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("src,dst,t,T\n1,2,3,4\n")
    assert "2 columns are called 't'" in refusal(path)
    assert read_events(path, t="T").t.tolist() == [4]
    path.write_text("src,dst,t,t\n1,2,3,4\n")
    assert "t='t' names 2 columns" in refusal(path, t="t")
    pq.write_table(pa.table([[1], [2], [3], [4]], names=["src", "dst", "t", "t"]), tmp_path / "twice.parquet")
    assert "two columns are called 't'" in refusal(tmp_path / "twice.parquet")
    assert "must be three columns" in refusal(path, src=1, dst=1, t=2)


@pytest.mark.parametrize(
    ("name", "data", "part"),
    [
        ("empty.csv", b"", "the file is empty"),
        ("blank.csv", b"\n \n", "the file is empty"),
        ("bom.csv", b"\xef\xbb\xbf", "the file is empty"),
        ("header.csv", b"src,dst,t\n", "no events"),
        ("header.csv", b"src,dst,t\n\n\n", "no events"),
        ("header.csv", JODIE_HEADER.encode(), "no events"),
        ("comments.txt", b"# only\n# comments\n", "no events"),
        ("binary.csv", bytes(range(256)), "binary data"),
        ("utf16.csv", "src,dst,t\n1,2,3\n".encode("utf-16"), "binary data"),
        (
            "latin.csv",
            "src,dst,t\na,b,1\ncaf\u00e9,b,2\n".encode("latin-1"),
            "line 3: byte 0xe9 is not UTF-8",
        ),
        ("empty.parquet", b"", "not a Parquet file"),
        ("text.parquet", b"src,dst,t\n1,2,3\n", "not a Parquet file"),
        ("short.parquet", b"PAR1PAR1", "not a Parquet file"),
        ("empty.csv.gz", gzip.compress(b"", mtime=0), "the file is empty"),
        ("cut.csv.gz", gzip.compress(b"src,dst,t\n" + b"1,2,3\n" * 50, mtime=0)[:-5], "Truncated"),
        ("three.csv", b"user_id,item_id,timestamp,state_label,comma_separated_x\n1,2,3\n", "3 fields"),
    ],
)
def test_files_that_hold_no_events_are_refused(name: str, data: bytes, part: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    message = refusal(path)
    assert message.startswith(str(path))
    assert part in message


def test_bytes_that_are_not_utf8_are_found_beyond_the_first_lines(tmp_path: Path) -> None:
    path = tmp_path / "late.csv"
    path.write_bytes(b"src,dst,t\n" + b"ann,bob,1\n" * 20_000 + b"ann,b\xe9,2\nann,bob,3\n")
    message = refusal(path)
    assert message.startswith(f"{path}, line 20002, column 'dst'")
    assert "b'b\\xe9'" in message
    assert "UTF-8" in message


def test_truncated_parquet_is_refused(tmp_path: Path) -> None:
    path = as_parquet(seven(), tmp_path)
    data = path.read_bytes()
    for size in (4, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:size])
        assert str(path) in refusal(path)


def test_empty_tables_and_folders_are_refused(tmp_path: Path) -> None:
    assert "no events" in refusal(seven().table().slice(0, 0))
    assert "the directory has no .parquet file" in refusal(tmp_path)
    pq.write_table(seven().table().slice(0, 0), tmp_path / "none.parquet")
    assert "no events" in refusal(tmp_path)


def test_a_missing_file_is_named_with_its_neighbour(tmp_path: Path) -> None:
    as_csv(seven(), tmp_path)
    assert "Did you mean 'events.csv'?" in refusal(tmp_path / "event.csv")
    assert "no such file" in refusal(tmp_path / "nowhere" / "x.csv")
    assert "check the path" in refusal("src,dst,t\n" * 1_000)  # the text itself, where a path belongs


def test_sources_and_options_of_the_wrong_kind(tmp_path: Path) -> None:
    assert "from a list" in refusal([1, 2, 3])
    with pytest.raises(ConfigError, match=r"Unknown format 'cvs'. Did you mean 'csv'"):
        read_events(as_csv(seven(), tmp_path), format="cvs")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="is for files"):
        read_events(seven().table(), format="csv")
    with pytest.raises(ConfigError, match="is a directory"):
        read_events(tmp_path, format="csv")
    with pytest.raises(ConfigError, match=r"features=\['f1'\]"):
        read_events(seven().table(), features="f1")


# --- real streams

COUNTS = {  # events, sources, destinations, nodes, distinct times, labels that are 1
    "wikipedia": (157_474, 8_227, 1_000, 9_227, 152_757, 217),
    "mooc": (411_749, 7_047, 97, 7_144, 345_600, 4_066),
    "collegemsg": (59_835, None, None, 1_899, 58_911, 0),
    "enron": (125_235, None, None, 184, 22_632, 0),
    "bitcoin_otc": (35_592, None, None, 5_881, None, 0),
}


@pytest.mark.parametrize("name", COUNTS)
def test_real_streams_have_their_known_counts(name: str, real_stream: Callable[[str], EventStream]) -> None:
    stream = real_stream(name)
    events, sources, destinations, nodes, times, positives = COUNTS[name]
    assert len(stream) == events
    assert stream.num_nodes == nodes
    assert stream.bipartite == (sources is not None)
    if sources is not None:
        assert len(np.unique(stream.src)) == sources
        assert len(np.unique(stream.dst)) == destinations
    if times is not None:
        assert len(np.unique(stream.t)) == times
    assert stream.label is not None
    assert int(stream.label.sum()) == positives
    assert stream.notices == ()


def test_wikipedia_begins_as_published(real_stream: Callable[[str], EventStream]) -> None:
    head = real_stream("wikipedia")[:5]
    rows = list(zip(head.src.tolist(), head.dst.tolist(), head.t.tolist(), strict=True))
    assert rows == [(0, 8227, 0), (1, 8228, 36), (1, 8228, 77), (2, 8229, 131), (1, 8228, 150)]


def test_snap_text_and_parquet_of_collegemsg_are_one_stream(
    real_file: Callable[[str], Path], real_stream: Callable[[str], EventStream]
) -> None:
    text, table = read_events(real_file("CollegeMsg.txt")), real_stream("collegemsg")
    np.testing.assert_array_equal(text.t - text.t[0], table.t)
    np.testing.assert_array_equal(text.ids.labels[text.src] - 1, table.ids.labels[table.src])
    np.testing.assert_array_equal(text.ids.labels[text.dst] - 1, table.ids.labels[table.dst])
    assert text.num_nodes == table.num_nodes
