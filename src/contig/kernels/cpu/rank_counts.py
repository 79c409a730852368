"""Ranks in one pass over the scores, which are large where every destination is a candidate."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from contig.data.columns import Array
from contig.kernels.cpu.launch import compile_loop, run_loop

MIN_ROWS = 8  # per thread


def rank_counts(scores: Tensor, low: Tensor, high: Tensor, marked: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute ``contig.kernels.rank_counts.rank_counts``."""
    if not scores.shape == marked.shape == (len(low), scores.shape[1]) or len(low) != len(high):
        raise ValueError("rank_counts: scores, bounds and marks differ in shape")
    if len(scores) > 1 and scores.stride(0) == 0:
        scores = scores[:1]
    counts = low.new_empty((3, len(low)), dtype=torch.int64)
    inputs = (scores, low, high, marked)
    run_loop(_count, inputs, (counts,), items=len(low), min_items=MIN_ROWS)
    return counts[0], counts[1], counts[2]


@compile_loop
def _count(
    scores: Array, low: Array, high: Array, marked: Array, counts: Array, first: int, end: int
) -> None:
    """Count in rows ``first..end``; a single row of scores is that of all."""
    for i in range(first, end):
        row, bounds = scores[i if len(scores) > 1 else 0], (low[i], high[i])
        counts[0, i], counts[1, i], counts[2, i] = _count_row(row, bounds, marked[i])


@compile_loop
def _count_row(scores: Array, bounds: tuple[float, float], marked: Array) -> tuple[int, int, int]:
    above, at_least, finite, total = 0, 0, 0, 0
    low, high = bounds
    for j in range(len(scores)):
        total += marked[j]
        above += marked[j] & (scores[j] > high)
        at_least += marked[j] & (scores[j] >= low)
        finite += marked[j] & (abs(scores[j]) < np.inf)
    return above, at_least - above, total - finite
