from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from contig.data import ids as ids_module
from contig.data.events import EventStream
from contig.data.growing import GrowingIds
from contig.data.ids import NodeIds, TextIds, distinct_ids, number_nodes
from contig.errors import DataError

SRC = ["ann", "cy", "bob", "ann", "dan", "eve", "bob"]
DST = ["bob", "ann", "cy", "dan", "cy", "ann", "ann"]


def test_nodes_are_numbered_by_sorted_label() -> None:
    stream = EventStream.from_arrays(SRC, DST, [2, 3, 3, 5, 8, 8, 9])
    assert stream.ids.labels.tolist() == ["ann", "bob", "cy", "dan", "eve"]
    assert stream.src.tolist() == [0, 2, 1, 0, 3, 4, 1]
    assert stream.dst.tolist() == [1, 0, 2, 3, 2, 0, 0]
    assert not stream.bipartite


def test_bipartite_streams_keep_the_sides_apart() -> None:
    stream = EventStream.from_arrays([7, 3, 7], [3, 9, 3], [0, 1, 2], bipartite=True)
    assert stream.ids.labels.tolist() == [3, 7, 3, 9]
    assert stream.ids.is_dst is not None
    assert stream.ids.is_dst.tolist() == [False, False, True, True]
    assert stream.src.tolist() == [1, 0, 1]
    assert stream.dst.tolist() == [2, 3, 2]


def test_bipartite_is_detected_from_disjoint_sides() -> None:
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
    with pytest.raises(
        DataError, match="Node 5 is not in this stream as a destination; its ids look like 3, 9"
    ):
        ids.find(5, side="dst")
    with pytest.raises(DataError, match="Node 7 is a source in this stream; expected a destination"):
        ids.find(7, side="dst")


def test_find_in_one_space_of_ids() -> None:
    ids = EventStream.from_arrays(SRC, DST, [2, 3, 3, 5, 8, 8, 9]).ids
    assert [ids.find(str(label)) for label in ids.labels] == [0, 1, 2, 3, 4]
    assert ids.find("cy", side="dst") == 2  # sides do not matter where there are none
    with pytest.raises(DataError, match="Node 'zed' is not in this stream; its ids look like 'ann'"):
        ids.find("zed")
    with pytest.raises(DataError, match="Node 'x' is not"):
        EventStream.from_arrays([1], [2], [0]).ids.find("x")


@pytest.mark.parametrize("label", [1.9, 1.0, True, None, [1]])
def test_what_is_not_an_id_is_refused(label: Any) -> None:
    """Rather than truncated to the id of another node."""
    ids = EventStream.from_arrays([1, 2], [2, 1], [1, 2]).ids
    assert ids.find(1) == ids.find("1") == ids.find(np.int32(1)) == 0
    with pytest.raises(DataError, match="is not a node id"):
        ids.find(label)


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


def test_a_few_ids_take_little_memory_however_far_apart_they_are() -> None:
    column = np.array([999_999, 5, 999_999, 70_000])
    distinct_ids(column)  # imports what it needs
    tracemalloc.start()
    try:
        labels, codes = distinct_ids(column)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (labels, codes.tolist()) == ([5, 70_000, 999_999], [2, 0, 2, 1])
    assert peak < 50_000


@pytest.mark.parametrize("bipartite", [True, False])
def test_labels_that_no_event_uses_get_no_number(bipartite: bool) -> None:
    src = TextIds(np.array([2, 0, 2]), pa.array(["b", "unused", "a"]))
    ids, src_ids, dst_ids = number_nodes(src, np.array([7, 7, 12]), bipartite)
    assert ids.labels.tolist() == (["a", "b", "12", "7"] if bipartite else ["12", "7", "a", "b"])
    assert ids.labels[src_ids].tolist() == ["a", "b", "a"]
    assert ids.labels[dst_ids].tolist() == ["7", "7", "12"]


def test_text_is_encoded_over_all_chunks() -> None:
    values = pa.chunked_array([["b", "a"], ["c"], ["a", "b", "b"]])
    for column in (values, values.dictionary_encode()):
        ids = TextIds.of(column)
        assert ids.labels.take(pa.array(ids.codes)).to_pylist() == ["b", "a", "c", "a", "b", "b"]
        assert sorted(ids.labels.to_pylist()) == ["a", "b", "c"]


def test_a_mistyped_id_gets_suggestions() -> None:
    stream = EventStream.from_arrays(["alice", "robert"], ["tea", "cake"], [1, 2])
    with pytest.raises(DataError, match=r"Node 'alcie' is not in this stream.* Did you mean 'alice'\?"):
        stream.ids.find("alcie")
    with pytest.raises(DataError, match=r"its ids look like 'alice', 'robert', 'cake'\.$"):
        stream.ids.find("zed")


@pytest.mark.parametrize("bipartite", [False, True])
@pytest.mark.parametrize("later", [0, 1, 5])
def test_ids_on_disk_are_found_whether_or_not_nodes_were_added(
    tmp_path: Path, bipartite: bool, later: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ids_module, "COMPARED", 3)  # labels are compared in several pieces
    labels = [*(f"b{i}" for i in range(5)), *(f"{'a' if bipartite else 'c'}{i}" for i in range(4))]
    sides = [False] * 5 + [True] * 4
    labels += ["b2x", "a9", "a0x", "zz", "b"][:later]
    sides += [False, True, True, False, True][:later]
    np.save(tmp_path / "ids.npy", np.array(labels))
    stored = np.lib.format.open_memmap(tmp_path / "ids.npy", mode="r")
    ids = NodeIds(stored, np.array(sides) if bipartite else None)
    expected = {
        (bipartite and side, label): i for i, (side, label) in enumerate(zip(sides, labels, strict=True))
    }
    assert dict(ids.index) == expected
    assert len(ids.index) == len(labels)
    for (dst, label), number in expected.items():
        assert ids.number_of(label, dst=dst) == number
        assert ids.number_of(label + "?", dst=dst) == -1
    grown = GrowingIds(ids)
    grown.add(["b1y"], [False] if bipartite else None)
    assert [grown.ids.number_of(label, dst=dst) for dst, label in expected] == list(range(len(labels)))
    assert grown.ids.number_of("b1y", dst=False) == len(labels)
