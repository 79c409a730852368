"""The events of a history by pair."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from contig.history import History


class PairIndex:
    """Finds the last event of a pair before any time, by binary search."""

    def __init__(self, history: History) -> None:
        self.history, self.count = history, history.num_events
        event = history.event_indices()
        pair = _pair(history.events["src"][event], history.events["dst"][event])
        self.pairs, code = torch.unique(pair, return_inverse=True)  # ascending
        self.keys = (code * self.count + event).sort().values  # by pair, then in stream order

    def covers(self, history: History) -> bool:
        """Return whether the index holds all events of this history."""
        return self.history is history and self.count == history.num_events

    def age(self, src: Tensor, dst: Tensor, times: Tensor) -> Tensor:
        """Return the time from the last event of each pair to the query, ``[q, c]`` as float64.

        Sources and times are ``[q]``, destinations ``[q, c]``. Only events strictly before the query count,
        so an age is positive; it is infinite for a pair without any.
        """
        if not len(self.pairs):
            return torch.full(dst.shape, math.inf, dtype=torch.float64, device=dst.device)
        pair, column = _pair(src.unsqueeze(1), dst), self.history.events["t"]
        code = torch.searchsorted(self.pairs, pair).clamp(max=len(self.pairs) - 1)
        before = self.history.events.count_before(times).unsqueeze(1)
        place = torch.searchsorted(self.keys, code * self.count + before) - 1
        event = self.keys[place.clamp(min=0)] - code * self.count  # negative where it belongs to another pair
        found = (place >= 0) & (event >= 0) & (self.pairs[code] == pair)
        age = times.unsqueeze(1) - column[torch.where(found, event, 0)]
        return torch.where(found, age.double(), math.inf)


def _pair(src: Tensor, dst: Tensor) -> Tensor:
    return (src << 32) | dst
