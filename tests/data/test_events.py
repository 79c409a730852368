from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from contig.data import events
from contig.data.events import COLUMNS, EventStream
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


def test_columns_and_fields_are_read_only() -> None:
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
def test_the_stream_does_not_share_memory_with_the_callers_arrays(ascending: bool) -> None:
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


def test_read_only_features_are_not_copied() -> None:
    features = np.ones((3, 2), dtype=np.float32)
    features.flags.writeable = False
    stream = EventStream.from_arrays([0, 1, 2], [3, 4, 5], [0, 1, 2], edge_features=features)
    assert stream.edge_features is not None
    assert np.shares_memory(stream.edge_features, features)


def test_sorting_by_time_is_stable_and_noted() -> None:
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


def test_equals_compares_every_column() -> None:
    stream = friends()
    assert stream.equals(friends())
    for name in ("src", "dst", "t", "label", "edge_features"):
        column = getattr(stream, name).copy()
        column[-1] = 0 if name != "dst" else 4
        assert not stream.equals(dataclasses.replace(stream, **{name: column})), name
    assert not stream.equals(dataclasses.replace(stream, label=None))
    assert not stream.equals(stream[:-1])


def test_the_repr_is_one_line() -> None:
    stream = EventStream.from_arrays([1, 2, 1], [2, 3, 3], [5, 6, 1234], origin="talks.csv")
    assert repr(stream) == "EventStream('talks.csv': 3 events, 3 nodes, 5 to 1,234)"
    assert repr(stream[:0]) == "EventStream('talks.csv': 0 events, 3 nodes)"
    dated = EventStream.from_arrays(
        [1, 2], [3, 4], [1_714_521_600, 1_714_700_000], edge_features=np.ones((2, 7))
    )
    assert repr(dated) == "EventStream('arrays': 2 events, 4 nodes, 7 features, 2024-05-01 to 2024-05-03)"


def test_a_fingerprint_in_parts_equals_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = EventStream.from_arrays(
        [1, 2, 1, 4, 2], [2, 3, 3, 1, 4], [5, 6, 7, 7, 9.5], edge_features=np.arange(15).reshape(5, 3)
    )
    whole = stream.fingerprint()
    monkeypatch.setattr(events, "HASHED_ROWS", 2)
    assert stream.fingerprint() == whole


def test_the_fingerprint_knows_features_of_nodes() -> None:
    """They change what a model computes, also where they come without names of columns."""
    ends = np.array([0, 1, 2]), np.array([3, 4, 3]), np.array([1, 2, 3])
    rows = np.arange(10, dtype=np.float32).reshape(5, 2)
    given = [None, rows, rows + 1, rows[:, :1], rows]
    prints = [EventStream.from_arrays(*ends, node_features=one).fingerprint() for one in given]
    assert prints[1] == prints[4]
    assert len(set(prints)) == 4


def test_the_fingerprint_depends_on_the_events_alone() -> None:
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
