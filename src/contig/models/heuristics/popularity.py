"""Popularity: destinations with many events will get more, from any source.

The score of a destination is the number of its events, on either side, strictly before the query's
time; with ``window`` only those within that time before the query count. The source does not
matter, so the margin of a model over this heuristic is what it knows about the pair.
"""

from __future__ import annotations

import math

from torch import Tensor

from contig.data.clock import LATEST
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
            count = count - history.count_before(nodes, _window_starts(history, when, self.opt.window))
        return count.view(dst.shape).double()


def _window_starts(history: History, times: Tensor, window: float) -> Tensor:
    """Return the times at which windows start.

    Integers stay integers: float32, which torch would choose here, loses seconds, and float64 nanoseconds.
    """
    if times.is_floating_point() or history.events["t"].is_floating_point():
        return times.double() - window
    return times - math.floor(min(window, LATEST))  # between integers, part of a tick makes no difference
