"""Popularity: who met many will be met again, by whomever.

The score of a destination is the number of events it took part in, on either side, strictly before the
query's time; with ``window`` only the events within that long before count. The source does not matter,
so what a model gains over this rule is what it knows of the pair. Nothing is learned.
"""

from __future__ import annotations

from torch import Tensor

from contig.history import History
from contig.models.heuristics.meetings import Heuristic, WindowOptions
from contig.models.state import NodeState


class Popularity(Heuristic):
    """See the module's text."""

    name = "popularity"
    options = WindowOptions

    def link(
        self, state: NodeState, history: History, src: Tensor, dst: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        nodes, when = dst.flatten(), times.repeat_interleave(dst.shape[1])
        met = history.count_before(nodes, when)
        if self.opt.window is not None:
            # in float64: an integer tensor less a Python float is float32, which loses seconds
            met = met - history.count_before(nodes, when.double() - self.opt.window)
        return met.view(dst.shape).float()
