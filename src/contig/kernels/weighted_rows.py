"""Weighted sums of rows: the product of a sparse matrix, given row by row, with a table."""

from __future__ import annotations

import torch
from torch import Tensor

from contig.kernels.dispatch import backend


def weighted_rows(table: Tensor, index: Tensor, weight: Tensor) -> Tensor:
    """Compute ``out[i] = sum_j weight[i, j] * table[index[i, j]]`` for a table ``[rows, width]``.

    ``index`` and ``weight`` are ``[sums, slots]``; a slot of weight 0 is not read. The gradient flows to the
    table only. Sums are taken in a fixed order, forward and backward, so results are deterministic.
    """
    compiled = backend(table.device)
    if compiled == "numba":
        from contig.kernels.cpu import weighted_rows as loops

        return loops.weighted_rows(table, index, weight)
    if compiled == "triton" and table.dtype == torch.float32:
        from contig.kernels.gpu import weighted_rows as kernels

        on_gpu: Tensor = kernels.weighted_rows(table, index, weight)
        return on_gpu
    return _weighted_rows(table, index, weight)


def _weighted_rows(table: Tensor, index: Tensor, weight: Tensor) -> Tensor:
    rows = table.index_select(0, index.flatten()).view(*index.shape, table.shape[1])
    return (rows * weight.unsqueeze(2)).sum(dim=1)
