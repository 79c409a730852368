"""Which implementation of an operation runs, and that only ``contig.kernels`` knows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import contig.kernels
from contig.kernels.dispatch import backend, disabled

CPU = torch.device("cpu")


def test_a_cpu_runs_numba_loops() -> None:
    pytest.importorskip("numba")
    assert backend(CPU) == "numba"


@pytest.mark.parametrize("device", ["meta", "xpu"])
def test_other_devices_run_torch_operations(device: str) -> None:
    assert backend(torch.device(device)) == "torch"


def test_disabled_selects_the_reference_until_the_block_ends() -> None:
    before = backend(CPU)
    with disabled():
        with disabled():
            assert backend(CPU) == backend(torch.device("cuda")) == "torch"
        assert backend(CPU) == "torch"
    assert backend(CPU) == before


def test_disabled_ends_with_an_error_too() -> None:
    before = backend(CPU)
    with pytest.raises(ValueError, match="inside"), disabled():
        raise ValueError("inside")
    assert backend(CPU) == before


def test_no_other_package_chooses_an_implementation() -> None:
    kernels = Path(contig.kernels.__file__).parent
    measured = kernels.parent / "benchmarks" / "random_reads.py"  # of the memory, not of an operation
    others = [
        path for path in kernels.parent.rglob("*.py") if kernels not in path.parents and path != measured
    ]
    chosen = re.compile(
        r"^\s*(import|from) (numba|triton|contig\.kernels\.[cg]pu)|\bimport backend\b", re.MULTILINE
    )
    assert len(others) > 50
    assert [path for path in others if chosen.search(path.read_text("utf-8"))] == []
