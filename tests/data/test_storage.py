from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from contig.data.events import COLUMNS, EventStream
from contig.data.storage import load_stream, save_stream
from contig.errors import DataError


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
        EventStream.from_arrays(["ann", "cy", "bob"], ["bob", "ann", "cy"], [2, 3, 3], label=[0, 1, 0]),
        EventStream.from_arrays([7, 2**40, 7], [3, 9, 3], [0, 10**12, 10**12], bipartite=True),
        EventStream.from_arrays([7, 3], [3, 9], [0, 1], bipartite=False),
    ],
    ids=["bipartite text", "slice", "text", "bipartite numbers", "bare"],
)
def test_a_saved_stream_is_the_same_stream(stream: EventStream, tmp_path: Path) -> None:
    save_stream(stream, tmp_path / "runs" / "stream")
    loaded = load_stream(tmp_path / "runs" / "stream")
    assert loaded.equals(stream)
    assert loaded.fingerprint() == stream.fingerprint()
    assert loaded.origin == stream.origin
    assert loaded.ids.labels.tolist() == stream.ids.labels.tolist()
    for name in COLUMNS:
        before, after = getattr(stream, name), getattr(loaded, name)
        assert (before is None) is (after is None), name
        assert before is None or before.dtype == after.dtype, name
    for i in range(stream.num_nodes):
        side = None if stream.ids.is_dst is None else "dst" if stream.ids.is_dst[i] else "src"
        assert loaded.ids.find(stream.ids.labels[i].item(), side=side) == i


def test_a_saved_stream_is_mapped_and_read_only(tmp_path: Path) -> None:
    save_stream(people_and_pages(), tmp_path)
    loaded = load_stream(tmp_path)
    for column in (*(getattr(loaded, name) for name in COLUMNS), loaded.ids.labels, loaded.ids.is_dst):
        assert isinstance(column, np.memmap)
        with pytest.raises(ValueError, match="read-only"):
            column[0] = column[1]


def test_saving_over_another_stream_leaves_nothing_of_it(tmp_path: Path) -> None:
    save_stream(people_and_pages(), tmp_path)
    opened = load_stream(tmp_path)
    bare = EventStream.from_arrays([7, 3], [3, 9], [0, 1], bipartite=False)
    save_stream(bare, tmp_path)
    assert load_stream(tmp_path).equals(bare)
    assert not load_stream(tmp_path).bipartite
    assert opened.equals(people_and_pages())  # an open stream keeps what it opened
    assert {path.name for path in tmp_path.iterdir()} == {
        "src.npy",
        "dst.npy",
        "t.npy",
        "ids.npy",
        "origin.txt",
    }


@pytest.mark.parametrize("name", ["src.npy", "dst.npy", "t.npy", "ids.npy", "origin.txt"])
def test_a_saved_stream_with_a_missing_part_is_rejected(name: str, tmp_path: Path) -> None:
    save_stream(people_and_pages(), tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(DataError, match="does not hold a complete saved stream"):
        load_stream(tmp_path)


@pytest.mark.parametrize("damage", [b"", b"\x93NUMPY", b"no array"])
def test_a_saved_stream_with_a_damaged_part_is_rejected(damage: bytes, tmp_path: Path) -> None:
    save_stream(people_and_pages(), tmp_path)
    (tmp_path / "label.npy").write_bytes(damage)
    with pytest.raises(DataError, match="does not hold a complete saved stream"):
        load_stream(tmp_path)
