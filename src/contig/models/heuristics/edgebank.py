"""EdgeBank: a pair that met before will meet again.

The rule of Poursafaei et al., "Towards better evaluation for dynamic link prediction" (2022): the
score is 1 for a pair seen strictly before the query's time, else 0. With ``window`` the pair must
have met within that long before. Nothing is learned; it is what learned models must beat.
"""

from __future__ import annotations

from torch import Tensor

from contig.history import History
from contig.models.heuristics.meetings import PairHeuristic, WindowOptions
from contig.models.state import NodeState


class EdgeBank(PairHeuristic):
    """See the module's text."""

    name = "edgebank"
    options = WindowOptions

    def link(
        self, state: NodeState, history: History, src: Tensor, dst: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        age = self.age(history, src, dst, times)
        met = age.isfinite()
        if self.opt.window is not None:
            met = met & (age <= self.opt.window)
        return met.float()
