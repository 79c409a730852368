"""Tables in huge pages are tensors like all others."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from contig.kernels.huge_pages import LEAST_BYTES, empty_table

ENABLED = Path("/sys/kernel/mm/transparent_hugepage/enabled")


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.bfloat16])
@pytest.mark.parametrize("rows", [0, 3, 300_000])
def test_what_is_written_is_read(rows: int, dtype: torch.dtype) -> None:
    table = empty_table((rows, 7, 4), dtype)
    assert (table.shape, table.dtype, table.is_contiguous()) == ((rows, 7, 4), dtype, True)
    values = torch.arange(rows * 28).remainder(2).view(rows, 7, 4).to(dtype)
    table.copy_(values)
    assert torch.equal(table, values)


@pytest.mark.skipif(
    sys.platform != "linux" or not ENABLED.exists() or "[never]" in ENABLED.read_text(),
    reason="this system has no huge pages",
)
def test_large_tables_ask_for_huge_pages() -> None:
    """The system lists the flag ``hg`` for memory that asks for huge pages."""
    size = 16 * LEAST_BYTES  # more than the C library takes from memory that others have freed
    assert not _asks_for_huge_pages(torch.empty(size, dtype=torch.uint8))
    assert _asks_for_huge_pages(empty_table((size,), torch.uint8))


def _asks_for_huge_pages(table: torch.Tensor) -> bool:
    middle, inside = table.data_ptr() + table.nbytes // 2, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name, _, rest = line.partition(" ")
        if "-" in name and not name.endswith(":"):
            first, end = (int(x, 16) for x in name.split("-"))
            inside = first <= middle < end
        elif inside and name == "VmFlags:":
            return "hg" in rest.split()
    raise AssertionError("the table is in no memory of this process")
