"""What rules have in common: they score pairs by the meetings in the history and learn nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from contig.errors import ConfigError
from contig.history import History
from contig.models.contract import DataShape, EventBatch, Model
from contig.models.state import NodeState
from contig.options import option


@dataclass(frozen=True)
class WindowOptions:
    """What can be chosen about a rule that forgets."""

    window: float | None = option(
        None, "how long an event counts, in the stream's time unit; none is for ever", above=0, below=math.inf
    )


class Heuristic(Model):
    """A model without weights, state or embeddings: a subclass gives ``link``, and that is all of it."""

    learns = False
    fixed_shapes = True  # a promise to contig.streaming.capture
    resolution = 0.0  # counts and ages are exact

    def __init__(self, options: Any, data: DataShape) -> None:
        super().__init__()
        self.opt = options

    def blank(self) -> Mapping[str, Tensor]:
        return {}

    def observe(self, state: NodeState, history: History, batch: EventBatch) -> None:
        """The history knows every meeting already."""

    def embed(
        self, state: NodeState, history: History, nodes: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        raise self._no_embeddings()

    def score(self, src: Tensor, dst: Tensor) -> Tensor:
        raise self._no_embeddings()

    def rank(
        self, state: NodeState, history: History, src: Tensor, dst: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        return super().rank(state, history, src, dst, times.expand(len(src)), as_of)

    def _no_embeddings(self) -> ConfigError:
        return ConfigError(
            f"{self.name} scores pairs and has no embeddings; use a model that learns, such as contig."
        )


class PairHeuristic(Heuristic):
    """A rule that asks how long ago this very pair met, in this direction."""

    _meetings: Meetings | None = None

    def age(self, history: History, src: Tensor, dst: Tensor, times: Tensor) -> Tensor:
        """``Meetings.age`` of a history; what is found of it is kept until it grows or another one comes."""
        if self._meetings is None or not self._meetings.cover(history):
            self._meetings = Meetings(history)
        return self._meetings.age(src, dst, times)


class Meetings:
    """The meetings of a history by pair, so that the last one before any time is found at once."""

    def __init__(self, history: History) -> None:
        self.history, self.count = history, history.num_events
        event = history.event_indices()
        met = _pair(history.events["src"][event], history.events["dst"][event])
        self.pairs, code = torch.unique(met, return_inverse=True)  # ascending
        self.keys = (code * self.count + event).sort().values  # by pair, then in stream order

    def cover(self, history: History) -> bool:
        """Whether these are all the meetings of that history."""
        return self.history is history and self.count == history.num_events

    def age(self, src: Tensor, dst: Tensor, times: Tensor) -> Tensor:
        """How long before times ``[q]`` the sources ``[q]`` last met candidates ``[q, c]``, as float64.

        Strictly before: an age is above 0. It is infinite where the two never met.
        """
        if not len(self.pairs):
            return torch.full(dst.shape, math.inf, dtype=torch.float64, device=dst.device)
        pair, column = _pair(src.unsqueeze(1), dst), self.history.events["t"]
        code = torch.searchsorted(self.pairs, pair).clamp(max=len(self.pairs) - 1)
        before = self.history.events.count_before(times).unsqueeze(1)
        place = torch.searchsorted(self.keys, code * self.count + before) - 1
        event = self.keys[place.clamp(min=0)] - code * self.count  # below 0 where it is another pair's
        met = (place >= 0) & (event >= 0) & (self.pairs[code] == pair)
        age = times.unsqueeze(1) - column[torch.where(met, event, 0)]
        return torch.where(met, age.double(), math.inf)


def _pair(src: Tensor, dst: Tensor) -> Tensor:
    return (src << 32) | dst
