"""Scoring many pairs at many times, in few passes over the model and the stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contig.history import History
from contig.models import Model, NodeState
from contig.streaming.batches import StreamBatches
from contig.tasks.recommend import AsOf


class Pairs(NamedTuple):
    """Pairs to score, in ascending order of their times; every field is ``[pairs]``."""

    src: Tensor
    dst: Tensor
    t: Tensor


class Group(NamedTuple):
    """Consecutive pairs that read the same state; ``as_of`` is the state's reference time."""

    start: int
    stop: int
    as_of: Tensor


@torch.no_grad()
def score_pairs(
    model: Model,
    history: History,
    pairs: Pairs,
    groups: list[Group],
    state_at: Callable[[Tensor], AbstractContextManager[NodeState]],
) -> Tensor:
    """Return the scores ``[pairs]``; ``state_at`` gives the state before a time and is called in order."""
    parts = []
    for start, stop, as_of in groups:
        src, dst, t = (column[start:stop] for column in pairs)
        with state_at(as_of) as state:
            scores = model.rank(state, history, src, dst.unsqueeze(1), t, as_of)
        parts.append(scores.squeeze(1))
    return torch.cat(parts)


def grouped(pairs: Pairs, as_of: AsOf, batches: StreamBatches, last: Tensor, now: Tensor) -> list[Group]:
    """Cut pairs into groups that share a state.

    ``event``: each distinct time is a group, with the state of that time. ``batch``: pairs are grouped as
    evaluation groups events, by the batches of the stream, and read the state before their batch. Pairs after
    ``last``, the time of the last event, read the state of ``now``, just after it. Either way a score
    depends on its own pair and time alone.
    """
    if as_of == "event":
        times, counts = torch.unique_consecutive(pairs.t, return_counts=True)
        return list(_groups(counts.cpu().numpy(), times))
    inside = int((pairs.t <= last).sum())
    groups: list[Group] = []
    if inside:
        starts = batches.start_times
        number = torch.searchsorted(starts.to(pairs.t.dtype), pairs.t[:inside], right=True) - 1
        used, counts = torch.unique_consecutive(number.clamp(min=0), return_counts=True)
        groups = list(_groups(counts.cpu().numpy(), starts[used]))
    if inside < len(pairs.t):
        groups.append(Group(inside, len(pairs.t), now))
    return groups


def _groups(counts: NDArray[np.int64], times: Tensor) -> Iterator[Group]:
    ends = np.cumsum(counts).tolist()
    for start, stop, time in zip([0, *ends], ends, times, strict=False):
        yield Group(start, stop, time)
