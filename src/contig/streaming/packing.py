"""How many distinct nodes a batch reads, counted before it runs.

On a GPU shapes are fixed before anything is counted, so each mention of a node would be computed again. But
which nodes a batch reads depends on no weight: the batches of a whole walk are counted first, in a few
calls, and every step then gets as much room as the largest batch needs (``contig.layers.unique``).
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contig.history import History
from contig.models.contract import EventBatch
from contig.streaming.capture import has_fixed_shapes

MENTIONS_AT_ONCE = 2**22  # counted in one call; bounds its memory
SPARE = 1.25  # the next walk has other negatives
GRANULARITY = 128  # room comes in multiples of this

Counts = NDArray[np.int64]


@runtime_checkable
class ReadsNeighbors(Protocol):
    """A model whose ``embed`` computes the vectors of other nodes than those it is called for."""

    def nodes_read(self, history: History, nodes: Tensor, times: Tensor) -> Tensor:
        """Return the nodes ``[queries, n]`` whose vectors ``embed`` computes for these queries."""


def count_nodes(
    model: object, history: History, events: Tensor, negative: Tensor, batch_size: int
) -> Counts | None:
    """Count the distinct nodes that each whole batch of ``events`` and ``negative`` ``[events, n]`` reads.

    None where there is nothing to gain: on a CPU, or for a model that reads only the nodes of its queries.
    """
    if not events.is_cuda or len(events) < batch_size:
        return None
    if not (has_fixed_shapes(model) and isinstance(model, ReadsNeighbors)):
        return None
    return count_nodes_read(model, history, events, negative, batch_size)


def count_nodes_read(
    model: ReadsNeighbors, history: History, events: Tensor, negative: Tensor, batch_size: int
) -> Counts:
    """Count the nodes as ``count_nodes`` does, on any device."""
    counts = []
    at_once = batch_size * max(1, MENTIONS_AT_ONCE // (batch_size * (2 + negative.shape[1]) * 32))
    whole = len(events) // batch_size * batch_size
    for first in range(0, whole, at_once):
        part = slice(first, min(first + at_once, whole))
        batch = EventBatch.of(history, events[part])
        nodes = torch.cat([batch.src.unsqueeze(1), batch.dst.unsqueeze(1), negative[part]], dim=1)
        read = model.nodes_read(history, nodes.flatten(), batch.t.repeat_interleave(nodes.shape[1]))
        mentions = read.view(len(batch.src) // batch_size, -1).sort(dim=1).values
        counts.append(1 + (mentions[:, 1:] != mentions[:, :-1]).sum(dim=1))
    return torch.cat(counts).cpu().numpy()


def room_needed(counts: Counts | None) -> int | None:
    """Return the room for the largest of these batches and somewhat larger ones."""
    if counts is None:
        return None
    return GRANULARITY * -(-int(SPARE * int(counts.max())) // GRANULARITY)


def fits(counts: Counts | None, batch: int, room: int | None) -> bool:
    """Return whether the nodes of this batch fit into the room; a batch that was not counted does not."""
    return room is None or (counts is not None and batch < len(counts) and int(counts[batch]) <= room)
