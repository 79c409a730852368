"""EdgeBank: pairs that interacted before will interact again.

Poursafaei et al., "Towards better evaluation for dynamic link prediction" (2022): the score is 1
for a pair with an event strictly before the query's time, else 0. With ``window`` the event must
be within that time before the query.
"""

from __future__ import annotations

from torch import Tensor

from contig.history import History
from contig.models.heuristics.base import PairHeuristic, WindowOptions
from contig.models.state import NodeState


class EdgeBank(PairHeuristic):
    """EdgeBank: scores 1 for a pair that interacted before, else 0."""

    name = "edgebank"
    options = WindowOptions

    def link(
        self, state: NodeState, history: History, src: Tensor, dst: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        age = self.age(history, src, dst, times)
        seen = age.isfinite()
        if self.opt.window is not None:
            seen = seen & (age <= self.opt.window)
        return seen.double()
