"""How many nodes a batch is about, known before it runs.

A batch of 200 events asks about thousands of neighbours, most of them the same few hundred nodes. On a
GPU shapes are fixed before anything is counted, so each mention would be computed again; but whom a batch
asks about depends on no weight. So the batches of a whole walk are counted first, in a few calls, and
their vectors get as much room as the largest needs (``Model.room``).
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contig.history import History
from contig.models.contract import EventBatch, Model

AT_ONCE = 2**22  # mentions counted in one call; bounds its memory
SPARE = 1.25  # the next walk has other negatives
STEP = 128  # room comes in multiples of this


def crowds(
    model: Model, history: History, events: Tensor, negative: Tensor, batch_size: int
) -> NDArray[np.int64] | None:
    """The distinct nodes that each whole batch of ``events`` and ``negative`` ``[events, n]`` asks about.

    None where there is nothing to gain: not on a GPU, or a model that computes only what it is asked.
    """
    if not events.is_cuda or len(events) < batch_size or not model.asks_others:
        return None
    return counted(model, history, events, negative, batch_size)


def counted(
    model: Model, history: History, events: Tensor, negative: Tensor, batch_size: int
) -> NDArray[np.int64]:
    """The same of a model that does ask about others, on any device."""
    found = []
    at_once = batch_size * max(1, AT_ONCE // (batch_size * (2 + negative.shape[1]) * 32))
    whole = len(events) // batch_size * batch_size
    for first in range(0, whole, at_once):
        part = slice(first, min(first + at_once, whole))
        batch = EventBatch.of(history, events[part])
        nodes = torch.cat([batch.src.unsqueeze(1), batch.dst.unsqueeze(1), negative[part]], dim=1)
        asked = model.asks(history, nodes.flatten(), batch.t.repeat_interleave(nodes.shape[1]))
        mentions = asked.view(len(batch.src) // batch_size, -1).sort(dim=1).values
        found.append(1 + (mentions[:, 1:] != mentions[:, :-1]).sum(dim=1))
    return torch.cat(found).cpu().numpy()


def room_above(counts: NDArray[np.int64] | None) -> int | None:
    """Room for the largest of these crowds and somewhat larger ones."""
    if counts is None:
        return None
    return STEP * -(-int(SPARE * int(counts.max())) // STEP)


def fits(counts: NDArray[np.int64] | None, batch: int, room: int | None) -> bool:
    """Whether this batch's nodes have room; one that was not counted is not run with any."""
    return room is None or (counts is not None and batch < len(counts) and int(counts[batch]) <= room)
