"""Which implementation of an operation runs."""

from __future__ import annotations

import pytest
import torch

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
