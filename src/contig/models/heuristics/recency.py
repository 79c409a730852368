"""Recency: a pair that met lately will meet again soon.

The score of a pair is ``1 / (1 + age)``, where ``age`` is the time since this source last met this
destination strictly before the query's time, and 0 for a pair that never met. It puts pairs in the
order in which they last met, the most recent first; among the pairs that EdgeBank remembers alike it
tells who comes back. Nothing is learned; it is what learned models must beat.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from contig.history import History
from contig.models.heuristics.meetings import PairHeuristic
from contig.models.state import NodeState


@dataclass(frozen=True)
class RecencyOptions:
    """There is nothing to choose: the order of the scores depends on no unit and no scale."""


class Recency(PairHeuristic):
    """See the module's text."""

    name = "recency"
    options = RecencyOptions

    def link(
        self, state: NodeState, history: History, src: Tensor, dst: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        age = self.age(history, src, dst, times)
        return (1 / (1 + age)).float()  # an infinite age gives 0
