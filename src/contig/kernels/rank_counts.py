"""How many scores of a row are above a bound, within it, or not finite."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from contig.kernels.dispatch import backend


class RankCounts(NamedTuple):
    """Counts ``[n]`` of the marked scores of each row."""

    above: Tensor  # score > high
    tied: Tensor  # low <= score <= high
    infinite: Tensor  # infinite or NaN


def rank_counts(scores: Tensor, low: Tensor, high: Tensor, marked: Tensor) -> RankCounts:
    """Compare the ``marked`` scores ``[n, m]`` of each row with its bounds ``[n]``.

    On a CPU, one row that is expanded to ``[n, m]`` is not copied.
    """
    if backend(scores.device) == "numba":
        from contig.kernels.cpu import rank_counts as loops

        return RankCounts(*loops.rank_counts(scores, low, high, marked))
    above = _count(scores > high.unsqueeze(1), marked)
    at_least = _count(scores >= low.unsqueeze(1), marked)
    return RankCounts(above, at_least - above, _count(~(scores.abs() < torch.inf), marked))


def _count(columns: Tensor, marked: Tensor) -> Tensor:
    """Count the columns of each row that are marked twice."""
    both = columns & marked
    if both.is_cuda:
        return both.sum(dim=1)
    # torch converts every flag to an integer first, which takes ten times as long.
    return torch.from_numpy(np.count_nonzero(both.numpy(), axis=1))
