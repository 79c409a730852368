"""Peak memory: at least what was held at any time, and labeled with what was measured."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from contig.runs.metrics import PeakMemory
from contig.training import memory_usage
from contig.training.memory_usage import PeakMeter

CPU, GPU = torch.device("cpu"), torch.device("cuda:3")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the independent reading is Linux's")
@pytest.mark.parametrize("source", ["status", "getrusage"])
def test_the_peak_outlasts_the_memory(source: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if source == "getrusage":
        monkeypatch.setattr(memory_usage, "STATUS", tmp_path / "none")
    meter = PeakMeter(CPU)
    block = np.ones(30_000_000)  # 240 MB, each page touched
    held = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    del block
    found = meter.peak()
    assert found.of == "the whole process"
    assert held - 2**20 <= found.bytes < 20 * held  # a wrong unit is off by a thousand


def test_a_gpu_is_measured_from_the_start_of_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """And without the tensors that others have left there."""
    held, most = 11, {GPU: 700}
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: most.update({device: held}))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: held)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: most[device])
    meter = PeakMeter(GPU)
    assert meter.peak() == PeakMemory(bytes=0, of="tensors on the GPU")
    most[GPU] = held + 45
    assert meter.peak() == PeakMemory(bytes=45, of="tensors on the GPU")


@pytest.mark.skipif(not memory_usage.CLEAR_REFS.exists(), reason="the peak can be reset on Linux only")
def test_a_cpu_is_measured_from_the_start_of_the_training() -> None:
    block = np.ones(30_000_000)
    before = PeakMeter(CPU).peak().bytes
    del block
    assert PeakMeter(CPU).peak().bytes < before - 200_000_000


def test_a_system_that_cannot_reset_the_peak(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(memory_usage, "CLEAR_REFS", tmp_path / "no folder" / "clear_refs")
    before = PeakMeter(CPU).peak().bytes
    assert PeakMeter(CPU).peak().bytes >= before > 0  # still that of the whole process
