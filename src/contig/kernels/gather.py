"""Gather rows of a table."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from contig.kernels.dispatch import backend


class LazyRows(NamedTuple):
    """``table[indices]``, not gathered yet: a table ``[rows, width]`` and indices ``[queries, k]``."""

    table: Tensor
    indices: Tensor

    @classmethod
    def of(cls, rows: Tensor) -> LazyRows:
        """Wrap rows ``[queries, k, width]`` that exist already."""
        count = rows.shape[0] * rows.shape[1]
        return cls(rows.flatten(0, 1), torch.arange(count, device=rows.device).view(rows.shape[:2]))

    @property
    def width(self) -> int:
        return self.table.shape[1]

    def gather(self) -> Tensor:
        """Return the rows as ``[queries, k, width]``."""
        rows: Tensor = self.table.index_select(0, self.indices.flatten())
        return rows.view(*self.indices.shape, self.width)


def gather_rows(table: Tensor, index: Tensor) -> Tensor:
    """Return ``table[index]`` for an index ``[n]``, with a gradient that is fast on a CPU too."""
    if backend(table.device) == "numba" and table.requires_grad:
        from contig.kernels.cpu import gather as compiled

        return compiled.gather_rows(table, index)
    return table.index_select(0, index)
