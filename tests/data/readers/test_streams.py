"""Whatever form the events come in, the stream is the same."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.event_files import (
    JODIE_HEADER,
    ROUTES,
    Events,
    as_csv,
    as_parquet,
    as_parquet_list,
    assert_same,
    rejection,
    seven,
)

from contig.data.events import EventStream
from contig.data.readers import read_events
from contig.errors import ConfigError

names = st.text(st.sampled_from("ab,\"'é#-_ 中7"), max_size=4).map(
    lambda tail: f"n{tail}n"
)  # no blank at an end
words = names.map(lambda name: name.replace(" ", "."))
whole_times = st.integers(-(2**60), 2**60)
# Without those that text writes as long whole numbers, such as 9007199254740992.0: they are read as integers.
real_times = st.floats(allow_nan=False, allow_infinity=False).filter(lambda t: not 2**53 <= abs(t) < 1e16)


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
def test_written_events_are_read_back(
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


def test_every_format_gives_the_same_stream_and_fingerprint(tmp_path: Path) -> None:
    streams = {route.__name__: read_events(route(seven(), tmp_path)) for route in ROUTES}
    expected = seven().stream()
    for name, stream in streams.items():
        assert stream.equals(expected), name
    assert len({stream.fingerprint() for stream in streams.values()}) == 1


def test_text_ids_are_ordered_as_in_from_arrays(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    letters = np.array(list("azAZ09é中~😀 "))
    src, dst = (
        ["x" + "".join(rng.choice(letters, rng.integers(0, 4))) + "x" for _ in range(500)] for _ in range(2)
    )
    events = Events(src, dst, list(range(500)))
    for route in ROUTES:
        assert_same(read_events(route(events, tmp_path)), events.stream())


def test_features_from_text_and_parquet_are_equal(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(size=(4_000, 5)) * 10.0 ** rng.integers(-20, 20, size=(4_000, 5))
    n = len(values)
    events = Events([1] * n, [2] * n, list(range(n)), features=values.tolist())
    streams = [read_events(route(events, tmp_path)) for route in (as_csv, as_parquet, as_parquet_list)]
    for stream in streams:
        assert stream.edge_features is not None
        np.testing.assert_array_equal(stream.edge_features, values.astype(np.float32))


def test_unsorted_rows_are_sorted_with_a_notice(tmp_path: Path) -> None:
    events = Events(["b", "a", "c"], ["x", "y", "z"], [5, 1, 3])
    stream = read_events(as_csv(events, tmp_path))
    assert stream.ids.labels[stream.src].tolist() == ["a", "c", "b"]
    assert "sorted by time" in stream.notices[0]


def test_streams_read_from_files_are_read_only(tmp_path: Path) -> None:
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


def test_bipartite_overrides_the_column_names() -> None:
    table = pa.table({"user": [1, 2], "item": [2, 3], "t": [0, 1]})
    assert read_events(table).num_nodes == 4
    assert read_events(table, bipartite=False).num_nodes == 3
    assert not read_events(table, bipartite=False).bipartite


def test_a_missing_file_is_reported_with_a_similar_name(tmp_path: Path) -> None:
    as_csv(seven(), tmp_path)
    assert "Did you mean 'events.csv'?" in rejection(tmp_path / "event.csv")
    assert "no such file" in rejection(tmp_path / "nowhere" / "x.csv")
    assert "check the path" in rejection("src,dst,t\n" * 1_000)  # the text itself, where a path belongs


def test_invalid_sources_and_options_are_rejected(tmp_path: Path) -> None:
    assert "from an object of type list" in rejection([1, 2, 3])
    with pytest.raises(ConfigError, match=r"Unknown format 'cvs'. Did you mean 'csv'"):
        read_events(as_csv(seven(), tmp_path), format="cvs")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="is for files"):
        read_events(seven().table(), format="csv")
    with pytest.raises(ConfigError, match="is a folder"):
        read_events(tmp_path, format="csv")
    with pytest.raises(ConfigError, match=r"features=\['f1'\]"):
        read_events(seven().table(), features="f1")


def test_empty_tables_and_folders_are_rejected(tmp_path: Path) -> None:
    assert "no events" in rejection(seven().table().slice(0, 0))
    assert "the folder has no .parquet file" in rejection(tmp_path)
    pq.write_table(seven().table().slice(0, 0), tmp_path / "none.parquet")
    assert "no events" in rejection(tmp_path)


COUNTS = {  # events, sources, destinations, nodes, distinct times, labels that are 1
    "wikipedia": (157_474, 8_227, 1_000, 9_227, 152_757, 217),
    "mooc": (411_749, 7_047, 97, 7_144, 345_600, 4_066),
    "collegemsg": (59_835, None, None, 1_899, 58_911, 0),
    "enron": (125_235, None, None, 184, 22_632, 0),
    "bitcoin_otc": (35_592, None, None, 5_881, None, 0),
}


@pytest.mark.parametrize("name", COUNTS)
def test_real_streams_have_their_published_counts(
    name: str, real_stream: Callable[[str], EventStream], real_file: Callable[[str], Path]
) -> None:
    real_file(f"{name}.parquet")  # a packaged copy has other times
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
