"""Tables in huge pages are tensors like all others."""

from __future__ import annotations

import pytest
import torch
from support.memory_flags import asks_for_huge_pages, has_huge_pages

from contig.kernels.huge_pages import LEAST_BYTES, empty_table


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.bfloat16])
@pytest.mark.parametrize("rows", [0, 3, 300_000])
def test_what_is_written_is_read(rows: int, dtype: torch.dtype) -> None:
    table = empty_table((rows, 7, 4), dtype)
    assert (table.shape, table.dtype, table.is_contiguous()) == ((rows, 7, 4), dtype, True)
    values = torch.arange(rows * 28).remainder(2).view(rows, 7, 4).to(dtype)
    table.copy_(values)
    assert torch.equal(table, values)


@pytest.mark.skipif(not has_huge_pages(), reason="this system has no huge pages")
def test_large_tables_ask_for_huge_pages() -> None:
    size = 16 * LEAST_BYTES  # more than the C library takes from memory that others have freed
    small, large = torch.empty(size, dtype=torch.uint8), empty_table((size,), torch.uint8)
    assert not asks_for_huge_pages(small.data_ptr() + size // 2)
    assert asks_for_huge_pages(large.data_ptr() + size // 2)
