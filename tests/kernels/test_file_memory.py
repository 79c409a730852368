"""Tensors in temporary files: the same numbers, and no file that is left."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from support.memory_flags import is_read_by_page
from support.problems import random_stream
from torch import Tensor

from contig.data import mapped_arrays
from contig.errors import ConfigError, DiskError
from contig.kernels.file_memory import file_tensor
from contig.models import NodeState
from contig.runs.run import Run
from contig.training.fit import fit
from contig.training.session import Session

SETTINGS: dict[str, Any] = {"dim": 8, "time_dim": 6, "batch_size": 20, "epochs": 2, "show": False}
pytestmark = pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="needs posix_fallocate")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a temporary folder of its own."""
    path = tmp_path / "temporary"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    return path


def mapped_files(folder: Path) -> int:
    """Count the mappings of files that were in a folder."""
    return sum(str(folder) in line for line in Path("/proc/self/maps").read_text("utf-8").splitlines())


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
def test_a_tensor_lives_in_a_file_without_a_name(folder: Path) -> None:
    tensor = file_tensor((5, 3), torch.int64)
    assert tensor.rows.tolist() == [[0, 0, 0]] * 5
    tensor.rows[2] = torch.tensor([1, 2, 3])
    in_order = tensor.in_order()
    assert in_order.sum() == 6
    in_order[4, 0] = 10
    assert tensor.rows.sum() == 16
    assert not list(folder.iterdir())
    assert mapped_files(folder) == 2
    opened = tensor.file
    os.fstat(opened)
    del tensor
    assert mapped_files(folder) == 1
    assert in_order.sum() == 16
    del in_order
    assert mapped_files(folder) == 0
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened)
    assert file_tensor((0, 3), torch.float32).rows.shape == (0, 3)


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs /proc")
@pytest.mark.parametrize(("memory", "by_page"), [(4 * 84_000, False), (4 * 84_000 - 1, True)])
def test_random_places_of_what_may_not_fit_into_memory_are_not_read_in_advance(
    memory: int, by_page: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapped_arrays, "memory_size", lambda: memory)
    tensor = file_tensor((3000, 7), torch.float32)
    found = [is_read_by_page(mapped.data_ptr()) for mapped in (tensor.rows, tensor.in_order())]
    assert found == [by_page, False]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_a_pass_over_all_rows_counts_their_pages_once(folder: Path) -> None:
    def mapped_bytes() -> int:
        status = Path("/proc/self/status").read_text("utf-8")
        names = ("RssFile", "RssShmem")  # the folder may be in memory
        return sum(int(line.split()[1]) for line in status.splitlines() if line.startswith(names)) << 10

    before, size = mapped_bytes(), 40 << 20
    tensor = file_tensor((size,), torch.uint8)
    tensor.rows.fill_(1)
    assert int(tensor.in_order().sum()) == size
    kept = tensor.in_order()
    kept.fill_(2)
    assert mapped_bytes() - before == pytest.approx(size, rel=0.1)


@pytest.mark.parametrize("copied", [NodeState.clone, deepcopy])
def test_node_states_on_disk_are_independent_and_grow(
    copied: Callable[[NodeState], NodeState], folder: Path
) -> None:
    state = NodeState({"h": torch.tensor([1.0, 2.0]), "last": torch.tensor(-1)}, 1, on_disk=True)
    state["h"][0] = 7.0
    state.grow(3)
    copy = copied(state)
    state["h"][2] = 5.0
    assert state["h"].tolist() == [[7.0, 7.0], [1.0, 2.0], [5.0, 5.0]]
    assert copy["h"].tolist() == [[7.0, 7.0], [1.0, 2.0], [1.0, 2.0]]
    assert copy.on_disk
    state.reset()
    assert state["h"].tolist() == [[1.0, 2.0]] * 3
    assert state["last"].tolist() == [-1] * 3


def test_snapshots_of_a_grown_state_on_disk_hold_its_nodes_alone(folder: Path) -> None:
    state = NodeState({"h": torch.tensor([1.0, 2.0])}, 2, on_disk=True)
    state.grow(3)  # with memory for a fourth row
    state["h"][2] = 5.0
    saved = state.snapshot()
    assert saved["rows"]["h"].untyped_storage().nbytes() == 3 * 2 * 4
    state["h"][2] = 6.0
    assert saved["rows"]["h"].tolist() == [[1.0, 2.0], [1.0, 2.0], [5.0, 5.0]]
    other = NodeState({"h": torch.tensor([3.0, 4.0])}, 5, on_disk=True)
    other.restore(saved)
    assert other["h"].tolist() == [[1.0, 2.0], [1.0, 2.0], [5.0, 5.0], [3.0, 4.0], [3.0, 4.0]]


def result(run: Run) -> tuple[float, dict[str, Tensor]]:
    assert run.metrics is not None
    return run.metrics.transductive.ap, {**run.state.rows, **run.model.state_dict()}


@pytest.mark.parametrize("model", ["contig", "jodie"])
def test_training_on_disk_is_bit_identical(
    model: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = random_stream(7, events=600, num_nodes=50, edge_width=2)
    kinds: list[bool] = []
    step = Session.train_step

    def recorded(self: Session) -> Tensor:
        kinds.append(self.state.on_disk)
        return step(self)

    monkeypatch.setattr(Session, "train_step", recorded)
    ap, tensors = result(fit(stream, model, out=tmp_path / "memory", device="cpu", **SETTINGS))
    assert not any(kinds)
    kinds.clear()
    there = fit(stream, model, out=tmp_path / "disk", device="cpu", graph_in="disk", **SETTINGS)
    assert all(kinds)
    for run in (there, Run.open(tmp_path / "disk", "cpu")):
        assert run.state.on_disk
        found_ap, found = result(run)
        assert found_ap == ap
        assert found.keys() == tensors.keys()
        assert all(torch.equal(found[name], tensor) for name, tensor in tensors.items())
    assert not list(folder.glob("contig-state-*"))


def test_a_full_disk_is_refused_before_anything_is_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(number: int, offset: int, length: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(DiskError, match=r"no space for 0\.0012 GB of node state.*set TMPDIR"):
        NodeState({"h": torch.zeros(3)}, 100_000, on_disk=True)
    assert not list(folder.iterdir())


def test_a_folder_that_does_not_exist_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "missing"))
    with pytest.raises(ConfigError, match=r"TMPDIR='.*missing': is not a folder"):
        NodeState({"h": torch.zeros(3)}, 10, on_disk=True)


@pytest.mark.gpu
def test_a_gpu_is_refused() -> None:
    stream = random_stream(7, events=60, num_nodes=9)
    with pytest.raises(ConfigError, match="graph_in=host"):
        fit(stream, "jodie", device="cuda", graph_in="disk", **SETTINGS)
