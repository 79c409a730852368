"""Negative pairs of any two nodes that met before.

Those of ``contig.data.negatives`` have the source of an event, so a model learns where this source goes.
Pairs of other sources teach it which of all known pairs are active now.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contig.data.events import EventStream


class DrawnPairs(NamedTuple):
    """A pair for each event; every field is ``[events]``."""

    src: Tensor
    dst: Tensor
    usable: Tensor  # False where no pair had met before (any is drawn), or the drawn one meets just then


class MetPairs:
    """Samples pairs that met strictly before an event; every distinct pair is equally likely.

    Only ``events`` (ascending positions) of the stream count as meetings.
    """

    def __init__(self, stream: EventStream, events: NDArray[np.int64], device: str | torch.device) -> None:
        src, dst, t = (column[events] for column in (stream.src, stream.dst, stream.t))
        codes, first, pair = np.unique(src * stream.num_nodes + dst, return_index=True, return_inverse=True)
        order = np.argsort(first)  # a pair's first meeting is its first row
        times, when = np.unique(t, return_inverse=True)
        self._times = torch.from_numpy(times).to(device)
        self._codes = torch.from_numpy(codes[order]).to(device)
        self._known_at = torch.from_numpy(t[first[order]]).to(device)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        self._meetings = torch.from_numpy(np.unique(place[pair] * len(times) + when)).to(device)
        self._nodes = stream.num_nodes

    def draw(self, t: Tensor, uniform: Tensor) -> DrawnPairs:
        """Draw a pair for each of the times ``t`` ``[events]``, which are times of the meetings.

        ``uniform`` has as many numbers from 0 to 1.
        """
        known = torch.searchsorted(self._known_at, t)
        place = (uniform * known).long()
        meeting = place * len(self._times) + torch.searchsorted(self._times, t)
        found = torch.searchsorted(self._meetings, meeting).clamp(max=len(self._meetings) - 1)
        usable = (known > 0) & (self._meetings[found] != meeting)
        code = self._codes[place]
        src = torch.div(code, self._nodes, rounding_mode="floor")
        return DrawnPairs(src, code - src * self._nodes, usable)
