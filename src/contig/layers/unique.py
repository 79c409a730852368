"""Find the distinct nodes of a batch, so that each is computed once.

A batch of 200 events has thousands of neighbors, most of them the same few hundred nodes. On a CPU
the distinct ones are found and counted. On a GPU shapes must not depend on data, so the caller passes
an upper bound of their number.
"""

from __future__ import annotations

import torch
from torch import Tensor

NODES_PER_ID = 4  # from here on sorting the ids is faster than marking them among all nodes


def distinct(ids: Tensor, num_nodes: int, *, fixed_shapes: bool = True) -> tuple[Tensor, Tensor]:
    """Return the distinct ids, and each id's position among them.

    For reading only: on a GPU with ``fixed_shapes`` the result may repeat ids and contain others. It
    is then the ids as they are, or all nodes if those are fewer.
    """
    few = not ids.is_cuda and num_nodes > NODES_PER_ID * len(ids)
    if few or (ids.is_cuda and not fixed_shapes):
        found, position = torch.unique(ids, return_inverse=True)
        return found, position
    if ids.is_cuda:
        if num_nodes < len(ids):
            return torch.arange(num_nodes, device=ids.device), ids
        return ids, torch.arange(len(ids), device=ids.device)
    position = torch.full((num_nodes,), -1, dtype=torch.int64)
    position[ids] = 0
    found = (position == 0).nonzero().squeeze(1)
    position[found] = torch.arange(len(found))
    return found, position[ids]


def packed(
    ids: Tensor, num_nodes: int, room: int | None, *, fixed_shapes: bool = True
) -> tuple[Tensor, Tensor]:
    """Return ``distinct`` ids whose number is at most ``room``; None sets no bound.

    On a GPU the result has exactly that length, with ids repeated to fill it.
    """
    if ids.is_cuda and fixed_shapes and room is not None and room < min(num_nodes, len(ids)):
        return pack(ids, num_nodes, room)
    return distinct(ids, num_nodes, fixed_shapes=fixed_shapes)


def mentioned(ids: Tensor, num_nodes: int) -> Tensor:
    """Return the ids and no others, for writing to their rows; on a GPU some may be repeated."""
    return ids if ids.is_cuda else distinct(ids, num_nodes)[0]


def pack(ids: Tensor, num_nodes: int, room: int) -> tuple[Tensor, Tensor]:
    """Return the distinct ids (at least one) and each id's position, without a device sync.

    The ids are repeated in turn until there are ``room`` of them. Copies of a single id would all send their
    gradients to the same rows, and summing them there would dominate the step.
    """
    # not marked[ids] = 1, which copies the number to the device: a CUDA graph capture forbids that
    marked = torch.zeros(num_nodes, dtype=torch.int32, device=ids.device).index_fill_(0, ids, 1)
    rank = marked.cumsum(0, dtype=torch.int32)  # 1 at the smallest of the ids, 2 at the next
    wanted = 1 + torch.arange(room, dtype=torch.int32, device=ids.device) % rank[-1].clamp(min=1)
    # If there is too little room, return an id that does not exist, so that reading its row fails.
    wanted = torch.where(rank[-1] <= room, wanted, num_nodes + 1)
    return torch.searchsorted(rank, wanted), rank[ids].long() - 1
