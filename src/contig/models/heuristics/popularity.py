"""Popularity: destinations with many events will get more, from any source.

The score of a destination is the number of its events, on either side, strictly before the query's
time; with ``window`` only those within that time before the query count. The source does not
matter, so the margin of a model over this heuristic is what it knows about the pair.
"""

from __future__ import annotations

from torch import Tensor

from contig.history import History
from contig.models.heuristics.base import Heuristic, WindowOptions
from contig.models.state import NodeState


class Popularity(Heuristic):
    """Popularity: scores a destination by its number of past events."""

    name = "popularity"
    options = WindowOptions

    def link(
        self, state: NodeState, history: History, src: Tensor, dst: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        nodes, when = dst.flatten(), times.repeat_interleave(dst.shape[1])
        count = history.count_before(nodes, when)
        if self.opt.window is not None:
            # in float64: an integer tensor minus a Python float is float32, which loses seconds
            count = count - history.count_before(nodes, when.double() - self.opt.window)
        return count.view(dst.shape).float()
