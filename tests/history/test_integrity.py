"""A damaged saved history raises ``DataError`` or gives valid answers; it never crashes a compiled loop."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.histories import every_query, grown_history, random_stream

from contig.errors import DataError
from contig.history import History, integrity

Change = Callable[[np.ndarray], Any]


def set_at(position: int, value: Any) -> Change:
    def change(array: np.ndarray) -> np.ndarray:
        array[position] = value
        return array

    return change


def change_array(folder: Path, name: str, change: Change) -> None:
    path = folder / json.loads((folder / "history.json").read_text())["files"][name]
    np.save(path, change(np.load(path)))
    remove_checksums(folder)


def remove_checksums(folder: Path) -> None:
    """Make a saved history one of a version without checksums."""
    head = json.loads((folder / "history.json").read_text())
    (folder / "history.json").write_text(json.dumps({"files": head["files"]}))


def test_one_changed_bit_is_noticed(tmp_path: Path) -> None:
    grown_history().save(tmp_path)
    for path in tmp_path.glob("*.npy"):
        data = path.read_bytes()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        with pytest.raises(DataError, match=rf"{path.name} is damaged: its checksum differs"):
            History.load(tmp_path)
        path.write_bytes(data)
    assert History.load(tmp_path).num_events > 0


DAMAGES: dict[str, tuple[str, Change, str]] = {
    "source of an event": ("events.src", set_at(3, 99), "events.src is not in 0..14"),
    "negative destination": ("events.dst", set_at(3, -1), "events.dst is not in 0..14"),
    "times of events": ("events.t", set_at(0, 99), "events.t decreases"),
    "feature rows": ("events.features", lambda x: x[:-1], "lengths of .* differ"),
    "feature dtype": ("events.features", lambda x: x.astype(np.float64), "events.features is torch.float64"),
    "order of features": ("events.features", np.asfortranarray, "strides"),
    "float ids": ("events.src", lambda x: x.astype(np.float64), "events.src is torch.float64"),
    "scalar": ("start", lambda x: np.int64(3), r"start has shape \[\]"),
    "matrix": ("start", lambda x: x[:, None], r"start has shape \[14, 1\]"),
    "fewer nodes": ("length", lambda x: x[:-1], "lengths of start, length, capacity differ"),
    "fewer entries": (
        "entry_node",
        lambda x: x[:-1],
        "lengths of entry_event, entry_node, entry_time differ",
    ),
    "time dtype": ("entry_time", lambda x: x.astype(np.float64), "different dtypes"),
    "start before the pool": ("start", set_at(2, -5), "outside of the pool"),
    "start after the pool": ("start", set_at(2, 10**9), "outside of the pool"),
    "huge start": ("start", set_at(2, 2**63 - 1), "outside of the pool"),
    "negative length": ("length", set_at(2, -1), "outside of the pool"),
    "length": ("length", set_at(4, 60), "longer than its capacity"),
    "capacity": ("capacity", set_at(2, 2**40), "outside of the pool"),
    "overlap": ("start", lambda x: x - x, "overlap|longer"),
    "event of an entry": ("entry_event", lambda x: x + 10**6, "entry_event is not in 0..41"),
    "negative event": ("entry_event", lambda x: x - 50, "entry_event is not in 0..41"),
    "order of entries": ("entry_event", lambda x: x * 0, "not in stream order"),
    "other end": ("entry_node", lambda x: x + 20, "does not match its event"),
    "time of an entry": ("entry_time", lambda x: x + 1, "does not match its event"),
}


@pytest.mark.parametrize("chunk", [5, 2**20])
@pytest.mark.parametrize("mapped", [True, False])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_history_is_refused(
    tmp_path: Path, damage: str, mapped: bool, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(integrity, "CHUNK", chunk)
    name, change, message = DAMAGES[damage]
    grown_history().save(tmp_path)
    change_array(tmp_path, name, change)
    with pytest.raises(DataError, match=message):
        History.load(tmp_path, mapped=mapped)


@pytest.mark.parametrize(("change", "message"), [("missing", "missing: start"), ("extra", "unknown: begin")])
def test_missing_and_unknown_arrays_are_refused(tmp_path: Path, change: str, message: str) -> None:
    grown_history().save(tmp_path)
    remove_checksums(tmp_path)
    head = json.loads((tmp_path / "history.json").read_text())
    files = head["files"]
    files["begin"] = files["start"] if change == "extra" else files.pop("start")
    (tmp_path / "history.json").write_text(json.dumps(head))
    with pytest.raises(DataError, match=message):
        History.load(tmp_path)


@pytest.mark.parametrize("chunk", [1, 7, 2**20])
def test_valid_histories_pass_in_chunks_of_any_size(
    tmp_path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(integrity, "CHUNK", chunk)
    for history in (grown_history(), History.empty(4), grown_history().only(np.array([2, 3, 17]))):
        history.save(tmp_path)
        loaded = History.load(tmp_path)
        assert torch.equal(loaded.event_indices(), history.event_indices())


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    History.from_stream(random_stream(np.random.default_rng(4), events=12, num_nodes=5, width=2)).save(folder)
    remove_checksums(folder)  # so that a changed byte gets as far as the checks of the content
    return folder


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_changed_byte_crashes_a_query(saved: Path, tmp_path: Path, data: st.DataObject) -> None:
    """Headers, indices and the list of files: any byte may become any other."""
    shutil.rmtree(tmp_path)
    shutil.copytree(saved, tmp_path)
    path = data.draw(st.sampled_from(sorted(tmp_path.iterdir())))
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    nodes, times = every_query(5, 7)
    try:
        history = History.load(tmp_path, mapped=data.draw(st.booleans()))
    except DataError:
        return
    assert bool(history.before(nodes, times, 3).mask.any())
    history.append(
        torch.tensor([1, 2]), torch.tensor([0, 6]), history.events["t"][-1:].repeat(2), torch.ones(2, 2)
    )
    assert history.num_nodes == 7
