"""EdgeBank: a pair that met before will meet again.

The rule of Poursafaei et al., "Towards better evaluation for dynamic link prediction" (2022): the
score is 1 for a pair seen strictly before the query's time, else 0. With ``window`` the pair must
have met within that long before. Nothing is learned; it is what learned models must beat.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from contig.errors import ConfigError
from contig.history import History
from contig.models.contract import DataShape, EventBatch, Model
from contig.models.state import NodeState
from contig.options import option


@dataclass(frozen=True)
class EdgeBankOptions:
    """What can be chosen about EdgeBank."""

    window: float | None = option(
        None, "how long a meeting counts, in the stream's time unit; none is for ever"
    )


class EdgeBank(Model):
    """See the module's text."""

    name = "edgebank"
    options = EdgeBankOptions
    learns = False

    def __init__(self, options: EdgeBankOptions, data: DataShape) -> None:
        super().__init__()
        self.opt = options
        self._bank: tuple[History, int, Tensor, Tensor] | None = None

    def blank(self) -> Mapping[str, Tensor]:
        return {}

    def observe(self, state: NodeState, history: History, batch: EventBatch) -> None:
        """The history knows every meeting already."""

    def embed(
        self, state: NodeState, history: History, nodes: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        raise ConfigError(
            "edgebank scores pairs and has no embeddings; use a model that learns, such as contig."
        )

    def score(self, src: Tensor, dst: Tensor) -> Tensor:
        raise ConfigError(
            "edgebank scores pairs and has no embeddings; use a model that learns, such as contig."
        )

    def link(
        self, state: NodeState, history: History, src: Tensor, dst: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        pairs, keys = self._meetings(history)
        events = history.num_events
        pair = self._pair(src.unsqueeze(1), dst)
        code = torch.searchsorted(pairs, pair).clamp(max=max(len(pairs) - 1, 0))
        known = pairs[code] == pair if len(pairs) else torch.zeros_like(pair, dtype=torch.bool)
        column = history.events["t"]
        before = _count_before(column, times).unsqueeze(1)
        met = torch.searchsorted(keys, code * events + before)  # meetings of this and lower pairs by then
        oldest = torch.zeros_like(before)
        if self.opt.window is not None:
            # in float64: an integer tensor less a Python float is float32, which loses seconds
            oldest = _count_before(column, times.double() - self.opt.window).unsqueeze(1)
        already = torch.searchsorted(keys, code * events + oldest)
        return (known & (met > already)).float()

    @staticmethod
    def _pair(src: Tensor, dst: Tensor) -> Tensor:
        return (src << 32) | dst

    def _meetings(self, history: History) -> tuple[Tensor, Tensor]:
        """The distinct pairs, and ``pair number * events + event`` of every meeting, ascending."""
        count = history.num_events
        if self._bank is None or self._bank[0] is not history or self._bank[1] != count:
            event = history.numbers()
            pair = self._pair(history.events["src"][event], history.events["dst"][event])
            pairs, code = torch.unique(pair, return_inverse=True)
            keys = (code * count + event).sort().values
            self._bank = (history, count, pairs, keys)
        return self._bank[2], self._bank[3]


def _count_before(column: Tensor, times: Tensor) -> Tensor:
    """How many of the ascending event times lie strictly before each time."""
    if times.is_floating_point() and not column.is_floating_point():
        times = times.ceil()  # an integer lies strictly before x exactly when it lies before ceil(x)
    return torch.searchsorted(column, times.to(column.dtype).contiguous())
