"""Recency: pairs that interacted recently will interact again soon.

The score of a pair is ``1 / age``, where ``age`` is the time since its last event strictly
before the query's time, and 0 for a pair without any. It ranks pairs that EdgeBank scores equally by
how recent they are. Ages of up to 2^52 ticks never tie unless they are equal.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from contig.history import History
from contig.models.heuristics.base import PairHeuristic
from contig.models.state import NodeState


@dataclass(frozen=True)
class RecencyOptions:
    """Recency has no options: the order of its scores depends on no unit and no scale."""


class Recency(PairHeuristic):
    """Recency: scores a pair by how recently it last interacted."""

    name = "recency"
    options = RecencyOptions

    def link(
        self, state: NodeState, history: History, src: Tensor, dst: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        age = self.age(history, src, dst, times)
        return 1 / age  # ages are positive; an infinite one gives 0
