"""Saving and loading a history: bit-identical, atomic, and confined to the files of the folder."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.histories import assert_same, entries, every_query, grown_history, stream_of

from contig.errors import DataError, DiskError
from contig.history import History


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("mapped", [True, False])
@pytest.mark.parametrize("width", [0, 3])
def test_a_loaded_history_is_bit_identical(tmp_path: Path, mapped: bool, width: int) -> None:
    history = grown_history(width)
    history.save(tmp_path / "deep" / "history")
    loaded = History.load(tmp_path / "deep" / "history", mapped=mapped)
    saved, found = history.saved_arrays(), loaded.saved_arrays()
    assert saved.keys() == found.keys()
    assert all(torch.equal(saved[name], found[name]) for name in saved)
    assert all(saved[name].dtype == found[name].dtype for name in saved)
    assert (loaded.num_nodes, loaded.num_events) == (history.num_nodes, history.num_events)
    ours, theirs = loaded.segments, history.segments
    assert (ours.used, ours.longest) == (theirs.used, theirs.longest)
    assert len(ours.start) == loaded.num_nodes < len(theirs.start)  # spare capacity is not written
    assert len(ours.entry_node) == ours.used < len(theirs.entry_node)
    nodes, times = every_query(14, 31)
    assert_same(loaded.before(nodes, times, 5), history.before(nodes, times, 5))


@pytest.mark.parametrize("mapped", [True, False])
@pytest.mark.parametrize("num_nodes", [0, 3])
def test_an_empty_history_can_be_saved(tmp_path: Path, mapped: bool, num_nodes: int) -> None:
    History.empty(num_nodes, edge_width=2).save(tmp_path)
    loaded = History.load(tmp_path, mapped=mapped)
    assert (loaded.num_nodes, loaded.num_events) == (num_nodes, 0)
    loaded.append(torch.tensor([0]), torch.tensor([2]), torch.tensor([1.5]).double(), torch.ones(1, 2))
    assert entries(loaded.before(torch.tensor([2]), torch.tensor([2]), 1)) == [[(0, 0, 1.5)]]


def test_appending_to_a_mapped_history_leaves_its_files_alone(tmp_path: Path) -> None:
    history = grown_history()
    history.save(tmp_path)
    files = contents(tmp_path)
    mapped = History.load(tmp_path)
    for grown in (mapped, history):
        for i in range(12):  # into spare capacity, then beyond it
            grown.append(torch.tensor([2]), torch.tensor([i]), torch.tensor([40 + i]), torch.ones(1, 3))
    nodes, times = every_query(14, 60)
    assert_same(mapped.before(nodes, times, 9), history.before(nodes, times, 9))
    assert contents(tmp_path) == files


def test_saving_again_replaces_the_old_history_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    History.from_stream(stream_of([(0, 1, 5)])).save(tmp_path)
    first = contents(tmp_path)
    mapped = History.load(tmp_path)
    mapped.append(torch.tensor([0]), torch.tensor([3]), torch.tensor([6]))
    mapped.save(tmp_path)  # over the files that it is mapped from
    query = torch.tensor([0]), torch.tensor([9])
    for history in (mapped, History.load(tmp_path)):
        assert entries(history.before(*query, 2)) == [[(3, 1, 6), (1, 0, 5)]]
    assert len(contents(tmp_path)) == len(first)
    assert contents(tmp_path)["notes.txt"] == b"mine"


def test_a_failed_save_leaves_the_old_history_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    History.from_stream(stream_of([(0, 1, 5)])).save(tmp_path)
    files = contents(tmp_path)
    save, written = np.save, []

    def full_disk(path: Path, array: Any) -> None:
        if len(written) == 4:
            path.write_bytes(b"half")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written.append(path)
        save(path, array)

    monkeypatch.setattr(np, "save", full_disk)
    with pytest.raises(DiskError, match=r"No space left.*free some space"):
        grown_history().save(tmp_path)
    assert len(written) == 4
    assert contents(tmp_path) == files
    assert History.load(tmp_path).num_events == 1


UNSAFE = ["../outside.npy", "notes.txt", "", ".", "..", "a/start.0123abcd.npy", "history.json", 7, None]


@pytest.mark.parametrize("file", [*UNSAFE, "absolute"], ids=str)
def test_only_files_of_the_folder_are_read_or_removed(tmp_path: Path, file: Any) -> None:
    folder, outside = tmp_path / "history", tmp_path / "outside.npy"
    History.from_stream(stream_of([(0, 1, 5)])).save(folder)
    np.save(outside, np.zeros(3, dtype=np.int64))
    (folder / "notes.txt").write_text("mine")
    head = json.loads((folder / "history.json").read_text())
    head["files"]["start"] = str(outside) if file == "absolute" else file
    (folder / "history.json").write_text(json.dumps(head))
    before = contents(folder)
    with pytest.raises(DataError, match="not a file of a saved history"):
        History.load(folder)
    with pytest.raises(DataError, match="not a file of a saved history"):
        History.from_stream(stream_of([(0, 1, 6)])).save(folder)
    assert contents(folder) == before
    assert outside.exists()


@pytest.mark.parametrize("content", ["{}", "[]", "7", '{"files": [1]}'])
def test_another_history_json_is_neither_read_nor_replaced(tmp_path: Path, content: str) -> None:
    (tmp_path / "history.json").write_text(content)
    for use in (History.load, History.empty(3).save):
        with pytest.raises(DataError, match="lists no files"):
            use(tmp_path)
    assert contents(tmp_path) == {"history.json": content.encode()}


def test_an_incomplete_history_is_refused_and_can_be_saved_again(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not contain a complete saved history"):
        History.load(tmp_path / "absent")
    history = History.from_stream(stream_of([(0, 1, 5)]))
    history.save(tmp_path)
    next(tmp_path.glob("entry_node*")).unlink()
    with pytest.raises(DataError, match="entry_node"):
        History.load(tmp_path)
    (tmp_path / "history.json").write_text("{")
    with pytest.raises(DataError, match="save it again"):
        History.load(tmp_path)
    history.save(tmp_path)
    assert History.load(tmp_path).num_events == 1
