"""Popularity: who met many will be met again, by whomever.

The score of a destination is the number of events it took part in, on either side, strictly before the
query's time; with ``window`` only the events within that long before count. The source does not matter,
so what a model gains over this rule is what it knows of the pair. Nothing is learned.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from contig.history import History
from contig.models.contract import DataShape
from contig.models.meetings import Rule, check_window
from contig.models.state import NodeState
from contig.options import option


@dataclass(frozen=True)
class PopularityOptions:
    """What can be chosen about popularity."""

    window: float | None = option(
        None, "how long an event counts, in the stream's time unit; none is for ever"
    )


class Popularity(Rule):
    """See the module's text."""

    name = "popularity"
    options = PopularityOptions

    def __init__(self, options: PopularityOptions, data: DataShape) -> None:
        super().__init__()
        self.opt = options
        check_window(options.window)

    def link(
        self, state: NodeState, history: History, src: Tensor, dst: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        nodes, when = dst.flatten(), times.repeat_interleave(dst.shape[1])
        met = history.count_before(nodes, when)
        if self.opt.window is not None:
            # in float64: an integer tensor less a Python float is float32, which loses seconds
            met = met - history.count_before(nodes, when.double() - self.opt.window)
        return met.view(dst.shape).float()
