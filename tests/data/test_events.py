from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from contig.data import events
from contig.data.events import COLUMNS, EventStream, load_stream, save_stream
from contig.errors import DataError


def friends() -> EventStream:
    """Seven meetings of five people, two of them at one time.

    t:    2      3      3      5      8      8      9
        ann-bob cy-ann bob-cy ann-dan dan-cy eve-ann bob-ann
    """
    src = ["ann", "cy", "bob", "ann", "dan", "eve", "bob"]
    dst = ["bob", "ann", "cy", "dan", "cy", "ann", "ann"]
    features = np.arange(14, dtype=np.float32).reshape(7, 2)
    return EventStream.from_arrays(
        src, dst, [2, 3, 3, 5, 8, 8, 9], label=[0, 1, 0, 0, 1, 0, 1], edge_features=features
    )


def test_nodes_are_numbered_by_sorted_label() -> None:
    stream = friends()
    assert stream.ids.labels.tolist() == ["ann", "bob", "cy", "dan", "eve"]
    assert stream.src.tolist() == [0, 2, 1, 0, 3, 4, 1]
    assert stream.dst.tolist() == [1, 0, 2, 3, 2, 0, 0]
    assert not stream.bipartite
    assert stream.edge_width == 2


def test_a_slice_is_a_view() -> None:
    stream = friends()
    part = stream[2:5]
    assert part.t.tolist() == [3, 5, 8]
    for name in ("src", "dst", "t", "label", "edge_features"):
        assert np.shares_memory(getattr(part, name), getattr(stream, name)), name
    assert part.num_nodes == stream.num_nodes  # ids stay whole
    assert part.destinations.tolist() == [2, 3]
    assert stream[-2:].t.tolist() == [8, 9]
    assert len(stream[7:]) == 0


def test_slice_of_a_slice_equals_the_direct_slice() -> None:
    stream = friends()
    assert stream[1:6][2:4].equals(stream[3:5])


@pytest.mark.parametrize("part", [slice(None, None, 2), slice(None, None, -1), 3])
def test_only_consecutive_events_can_be_sliced(part: object) -> None:
    with pytest.raises(DataError, match="start:stop"):
        friends()[part]  # type: ignore[index]


def test_columns_and_fields_cannot_be_changed() -> None:
    stream = friends().with_node_features(np.ones((5, 3)))
    for name in ("src", "dst", "t", "label", "edge_features", "node_features"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(stream, name)[0] = 1
        with pytest.raises(ValueError, match="read-only"):
            getattr(stream[1:3], name)[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        stream.ids.labels[0] = "zed"
    with pytest.raises(dataclasses.FrozenInstanceError):
        stream.t = np.zeros(7)  # type: ignore[misc]


@pytest.mark.parametrize("ascending", [True, False], ids=["in order", "to be sorted"])
def test_the_stream_and_the_callers_arrays_do_not_touch_each_other(ascending: bool) -> None:
    given = {
        "src": np.array([7, 3, 7], dtype=np.int64),
        "dst": np.array([8, 9, 9], dtype=np.int64),
        "t": np.array([1, 2, 3] if ascending else [1, 3, 2], dtype=np.int64),
        "label": np.array([0, 1, 1], dtype=np.int64),
        "edge_features": np.array([[0.5, 1.5], [2.5, 3.5], [4.5, 5.5]], dtype=np.float32),
        "node_features": np.array([[1], [2], [3], [4]], dtype=np.float32),
    }
    assert set(given) == set(COLUMNS)
    stream = EventStream.from_arrays(**given)
    untouched = EventStream.from_arrays(**{name: column.copy() for name, column in given.items()})
    for name, column in given.items():
        column[...] = 99  # still the caller's to write
        assert np.array_equal(getattr(stream, name), getattr(untouched, name)), name
    assert stream.ids.labels.tolist() == [3, 7, 8, 9]
    assert stream.fingerprint() == untouched.fingerprint()


def test_arrays_that_nobody_can_write_to_are_not_copied() -> None:
    features = np.ones((3, 2), dtype=np.float32)
    features.flags.writeable = False
    stream = EventStream.from_arrays([0, 1, 2], [3, 4, 5], [0, 1, 2], edge_features=features)
    assert stream.edge_features is not None
    assert np.shares_memory(stream.edge_features, features)


def test_sorting_by_time_is_stable_and_told() -> None:
    rng = np.random.default_rng(0)
    n = 400
    t = rng.integers(0, 40, n)  # ten events share each time
    src, dst = rng.integers(0, 30, n), rng.integers(0, 30, n)
    stream = EventStream.from_arrays(src, dst, t, label=np.arange(n), edge_features=np.arange(n)[:, None])
    order = sorted(range(n), key=lambda i: t[i])  # Python's sort is stable
    assert stream.label is not None
    assert stream.edge_features is not None
    assert stream.label.tolist() == order
    assert stream.edge_features[:, 0].tolist() == order
    assert stream.ids.labels[stream.src].tolist() == src[order].tolist()
    assert stream.ids.labels[stream.dst].tolist() == dst[order].tolist()
    assert len(stream.notices) == 1
    assert "sorted by time" in stream.notices[0]
    assert EventStream.from_arrays(src, dst, np.sort(t)).notices == ()


def test_bipartite_streams_keep_the_sides_apart() -> None:
    stream = EventStream.from_arrays([7, 3, 7], [3, 9, 3], [0, 1, 2], bipartite=True)
    assert stream.ids.labels.tolist() == [3, 7, 3, 9]
    assert stream.ids.is_dst is not None
    assert stream.ids.is_dst.tolist() == [False, False, True, True]
    assert stream.src.tolist() == [1, 0, 1]
    assert stream.dst.tolist() == [2, 3, 2]


def test_bipartite_is_found_out_from_disjoint_sides() -> None:
    assert EventStream.from_arrays(["a", "b"], ["c", "d"], [0, 1]).bipartite
    assert not EventStream.from_arrays(["a", "b"], ["b", "d"], [0, 1]).bipartite
    assert not EventStream.from_arrays(["a", "b"], ["c", "d"], [0, 1], bipartite=False).bipartite


def test_find_on_both_sides() -> None:
    ids = EventStream.from_arrays([7, 3, 7], [3, 9, 3], [0, 1, 2], bipartite=True).ids
    assert ids.find(7) == 1
    assert ids.find("9") == 3  # as typed on a command line
    assert ids.find(3, side="src") == 0
    assert ids.find(3, side="dst") == 2
    with pytest.raises(DataError, match=r"Node 3 is both .* side='src'"):
        ids.find(3)
    with pytest.raises(DataError, match="Node 7 is not in this stream on the dst side"):
        ids.find(7, side="dst")


def test_find_in_one_space_of_ids() -> None:
    ids = friends().ids
    assert [ids.find(str(label)) for label in ids.labels] == [0, 1, 2, 3, 4]
    assert ids.find("cy", side="dst") == 2  # sides do not matter where there are none
    with pytest.raises(DataError, match="Node 'zed' is not in this stream; its ids look like 'ann'"):
        ids.find("zed")
    with pytest.raises(DataError, match="Node 'x' is not"):
        EventStream.from_arrays([1], [2], [0]).ids.find("x")


def test_node_features_by_mapping_and_by_array() -> None:
    stream = friends()
    vectors: dict[int | str, list[float]] = {
        name: [float(len(name)), float(i)] for i, name in enumerate(["eve", "dan", "cy", "bob", "ann"])
    }
    by_name = stream.with_node_features(vectors)
    assert by_name.node_features is not None
    assert by_name.node_features.tolist() == [[3, 4], [3, 3], [2, 2], [3, 1], [3, 0]]
    by_array = stream.with_node_features([vectors[name] for name in stream.ids.labels.tolist()])
    assert by_name.equals(by_array)
    assert not by_name.equals(stream)
    assert by_name[2:4].node_features is by_name.node_features
    del vectors["cy"]
    with pytest.raises(DataError, match="no entry for node 'cy'"):
        stream.with_node_features(vectors)
    with pytest.raises(DataError, match=r"4 rows.*5 nodes"):
        stream.with_node_features(np.zeros((4, 2)))


def test_equals_sees_every_column() -> None:
    stream = friends()
    assert stream.equals(friends())
    for name in ("src", "dst", "t", "label", "edge_features"):
        column = getattr(stream, name).copy()
        column[-1] = 0 if name != "dst" else 4
        assert not stream.equals(dataclasses.replace(stream, **{name: column})), name
    assert not stream.equals(dataclasses.replace(stream, label=None))
    assert not stream.equals(stream[:-1])


def test_a_stream_in_one_line() -> None:
    stream = EventStream.from_arrays([1, 2, 1], [2, 3, 3], [5, 6, 1234], origin="talks.csv")
    assert repr(stream) == "EventStream('talks.csv': 3 events, 3 nodes, 5 to 1,234)"
    assert repr(stream[:0]) == "EventStream('talks.csv': 0 events, 3 nodes)"
    dated = EventStream.from_arrays(
        [1, 2], [3, 4], [1_714_521_600, 1_714_700_000], edge_features=np.ones((2, 7))
    )
    assert repr(dated) == "EventStream('arrays': 2 events, 4 nodes, 7 features, 2024-05-01 to 2024-05-03)"


def test_a_fingerprint_in_parts_is_that_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = EventStream.from_arrays(
        [1, 2, 1, 4, 2], [2, 3, 3, 1, 4], [5, 6, 7, 7, 9.5], edge_features=np.arange(15).reshape(5, 3)
    )
    whole = stream.fingerprint()
    monkeypatch.setattr(events, "HASH_AT_ONCE", 2)
    assert stream.fingerprint() == whole


def test_fingerprint_is_of_the_events_alone() -> None:
    stream = friends()
    as_floats = EventStream.from_arrays(
        stream.src, stream.dst, stream.t.astype(float), label=stream.label, edge_features=stream.edge_features
    )
    assert as_floats.t.dtype == np.float64
    assert as_floats.fingerprint() == stream.fingerprint()  # the numbers, not how they are stored
    prints = {stream.fingerprint()}
    for name in ("src", "dst", "t", "label", "edge_features"):
        column = getattr(stream, name).copy()
        column[3] += 1
        prints.add(dataclasses.replace(stream, **{name: column}).fingerprint())
    prints.add(dataclasses.replace(stream, label=None).fingerprint())
    assert len(prints) == 7


def test_times_keep_their_precision() -> None:
    stream = EventStream.from_arrays([0, 1], [1, 0], np.array([1_700_000_001, 1_700_000_002], dtype=np.int32))
    assert stream.t.dtype == np.int64
    assert np.diff(stream.t).tolist() == [1]
    fractional = EventStream.from_arrays([0, 1], [1, 0], [1_700_000_001.25, 1_700_000_001.5])
    assert fractional.t.dtype == np.float64
    assert np.diff(fractional.t).tolist() == [0.25]


def test_unsigned_times_become_signed() -> None:
    # As unsigned numbers their differences would wrap around.
    t = np.array([5, 3, 2**63 - 1], dtype=np.uint64)
    stream = EventStream.from_arrays([0, 1, 2], [1, 2, 0], t)
    assert stream.t.dtype == np.int64
    assert stream.t.tolist() == [3, 5, 2**63 - 1]
    assert (stream.t[:1] - stream.t[1:2]).tolist() == [-2]


def test_labels_may_be_whole_numbers_of_any_type() -> None:
    for labels in (
        ["1.0", "0", "2"],
        [1.0, 0.0, 2.0],
        np.array([1, 0, 2], dtype=np.uint8),
        ["1", "0", "2.0"],
    ):
        stream = EventStream.from_arrays([1, 2, 3], [4, 5, 6], [0, 1, 2], label=labels)
        assert stream.label is not None
        assert stream.label.dtype == np.int64
        assert stream.label.tolist() == [1, 0, 2]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"src": [1, 2]}, "differ in length (src 2, dst 3, t 3)"),
        ({"src": [], "dst": [], "t": []}, "there are no events"),
        ({"src": [1.5, 2, 3]}, "column 'src', row 0: id 1.5 is not a whole number"),
        ({"dst": [1, float("nan"), 3]}, "column 'dst', row 1: id nan is missing"),
        ({"dst": ["a", None, "c"]}, "column 'dst', row 1: the id is missing"),
        ({"src": [[1], [2], [3]]}, "column 'src' has shape (3, 1)"),
        ({"t": [0, float("inf"), 2]}, "column 't', row 1: time inf is not finite"),
        ({"t": ["a", "b", "c"]}, "times must be numbers or datetimes"),
        ({"t": np.array(["2020", "NaT", "2021"], dtype="datetime64[s]")}, "row 1: the time is missing"),
        (
            {"t": np.array(["2020", "2021", "300000"], dtype="datetime64[s]")},
            "column 't', row 2: time 300000-01-01T00:00:00 lies too far from 1970",
        ),
        ({"t": np.array([0, 2**63, 1], dtype=np.uint64)}, "row 1: time 9223372036854775808 is larger"),
        ({"label": ["x", "y", "z"]}, "labels must be whole numbers"),
        ({"label": ["1.0", "0", "0.5"]}, "column 'label', row 2: 0.5 is not a whole number"),
        ({"label": [0, float("nan"), 1]}, "column 'label', row 1: nan is not a whole number"),
        ({"edge_features": [1, 2, 3]}, "edge_features has shape (3,)"),
        ({"edge_features": [[0, 0], [0, float("nan")], [0, 0]]}, "row 1, feature 1: nan is not a finite"),
        ({"edge_features": [[0, 0], [0, 0], [1e300, 0]]}, "row 2, feature 0: inf is not a finite"),
        ({"src": np.array([1, 2, 2**63], dtype=np.uint64)}, "row 2: id 9223372036854775808 is larger"),
    ],
)
def test_refusals_name_column_row_and_value(columns: dict[str, object], message: str) -> None:
    good = {"src": [1, 2, 3], "dst": [4, 5, 6], "t": [0, 1, 2]}
    with pytest.raises(DataError) as refusal:
        EventStream.from_arrays(**{**good, **columns}, origin="mine")  # type: ignore[arg-type]
    assert message in str(refusal.value)
    assert str(refusal.value).startswith("mine: ")


def test_a_fractional_label_is_refused() -> None:
    with pytest.raises(DataError, match=r"column 'label', row 1: .*0\.5.* is not a whole number"):
        EventStream.from_arrays([1, 2, 3], [4, 5, 6], [0, 1, 2], label=[0, 0.5, 1])


def test_mixed_integer_and_text_ids_become_text() -> None:
    stream = EventStream.from_arrays([10, 9], ["a", "10"], [0, 1])
    assert stream.ids.labels.tolist() == ["10", "9", "a"]
    assert stream.src.tolist() == [0, 1]
    assert stream.dst.tolist() == [2, 0]


@pytest.mark.parametrize("scale", [1, 10**12])
def test_dense_and_sparse_ids_are_numbered_alike(scale: int) -> None:
    rng = np.random.default_rng(1)
    src, dst = rng.integers(-20, 20, 300) * scale, rng.integers(0, 50, 300) * scale
    stream = EventStream.from_arrays(src, dst, np.arange(300))
    labels = np.unique(np.concatenate([src, dst]))
    assert stream.ids.labels.tolist() == labels.tolist()
    assert stream.src.tolist() == [labels.tolist().index(x) for x in src]
    assert stream.dst.tolist() == [labels.tolist().index(x) for x in dst]


# --- kept streams


def people_and_pages() -> EventStream:
    """Four visits of three people to two pages, one of which has a person's name."""
    return EventStream.from_arrays(
        ["ann", "bo", "ann", "Zoë"],
        ["bo", "page", "page", "bo"],
        [0.5, 1.25, 1.25, 7.0],
        label=[0, 1, 0, 2],
        edge_features=np.arange(12, dtype=np.float32).reshape(4, 3) / 7,
        node_features=np.arange(10).reshape(5, 2),
        bipartite=True,
        origin="visits of café.csv",
    )


@pytest.mark.parametrize(
    "stream",
    [
        people_and_pages(),
        people_and_pages()[1:3],
        friends(),
        EventStream.from_arrays([7, 2**40, 7], [3, 9, 3], [0, 10**12, 10**12], bipartite=True),
        EventStream.from_arrays([7, 3], [3, 9], [0, 1], bipartite=False),
    ],
    ids=["bipartite text", "slice", "text", "bipartite numbers", "bare"],
)
def test_a_kept_stream_is_the_same_stream(stream: EventStream, tmp_path: Path) -> None:
    save_stream(stream, tmp_path / "runs" / "stream")
    kept = load_stream(tmp_path / "runs" / "stream")
    assert kept.equals(stream)
    assert kept.fingerprint() == stream.fingerprint()
    assert kept.origin == stream.origin
    assert kept.ids.labels.tolist() == stream.ids.labels.tolist()
    for name in COLUMNS:
        saved, loaded = getattr(stream, name), getattr(kept, name)
        assert (saved is None) is (loaded is None), name
        assert saved is None or saved.dtype == loaded.dtype, name
    for i in range(stream.num_nodes):
        side = None if stream.ids.is_dst is None else "dst" if stream.ids.is_dst[i] else "src"
        assert kept.ids.find(stream.ids.labels[i].item(), side=side) == i


def test_a_kept_stream_is_mapped_and_cannot_be_changed(tmp_path: Path) -> None:
    save_stream(people_and_pages(), tmp_path)
    kept = load_stream(tmp_path)
    for column in (*(getattr(kept, name) for name in COLUMNS), kept.ids.labels, kept.ids.is_dst):
        assert isinstance(column, np.memmap)
        with pytest.raises(ValueError, match="read-only"):
            column[0] = column[1]


def test_a_stream_kept_over_another_leaves_nothing_of_it(tmp_path: Path) -> None:
    save_stream(people_and_pages(), tmp_path)
    opened = load_stream(tmp_path)
    bare = EventStream.from_arrays([7, 3], [3, 9], [0, 1], bipartite=False)
    save_stream(bare, tmp_path)
    assert load_stream(tmp_path).equals(bare)
    assert not load_stream(tmp_path).bipartite
    assert opened.equals(people_and_pages())  # who has it open keeps what it opened
    assert {path.name for path in tmp_path.iterdir()} == {
        "src.npy",
        "dst.npy",
        "t.npy",
        "ids.npy",
        "origin.txt",
    }


@pytest.mark.parametrize("name", ["src.npy", "dst.npy", "t.npy", "ids.npy", "origin.txt"])
def test_a_kept_stream_that_lacks_a_part_is_refused(name: str, tmp_path: Path) -> None:
    save_stream(people_and_pages(), tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(DataError, match="does not hold a whole kept stream"):
        load_stream(tmp_path)


@pytest.mark.parametrize("damage", [b"", b"\x93NUMPY", b"no array"])
def test_a_kept_stream_with_a_damaged_part_is_refused(damage: bytes, tmp_path: Path) -> None:
    save_stream(people_and_pages(), tmp_path)
    (tmp_path / "label.npy").write_bytes(damage)
    with pytest.raises(DataError, match="does not hold a whole kept stream"):
        load_stream(tmp_path)
