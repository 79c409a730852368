"""Tensors that a GPU works on while they lie in the host's memory, for graphs larger than the card.

Page-locked memory has an address that the GPU can read and write itself, over the bus: a kernel that
takes a few rows of a large table moves those rows and nothing else, with no copy to wait for, inside a
captured graph too. To torch it is a tensor of the GPU like any other.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from contig.errors import ConfigError


class _Seen:
    """Page-locked memory as the GPU sees it, in the way array libraries tell each other."""

    def __init__(self, held: Tensor) -> None:
        self.held = held  # kept alive by every tensor made of it

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        held = self.held
        return {
            "shape": tuple(held.shape),
            "typestr": held.numpy().dtype.str,
            "data": (held.data_ptr(), False),
            "strides": None,
            "version": 3,
        }


def pinned(tensor: Tensor, device: torch.device) -> Tensor:
    """A copy of ``tensor`` in the host's memory that ``device`` works on.

    Page-locked memory comes in powers of two, so it may take up to twice the tensor's size.
    """
    if device.type != "cuda":
        return tensor.to(device, copy=True, memory_format=torch.contiguous_format)
    if not tensor.numel():
        return tensor.to(device)  # there is no memory to see
    with torch.cuda.device(device):
        # Memory that was given back may still be worked on: its owner knows of copies, not of our kernels.
        torch.cuda.synchronize(device)
        held = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        held.copy_(tensor)
        seen = torch.as_tensor(_Seen(held), device=device)
    if seen.data_ptr() != held.data_ptr():
        raise ConfigError(f"device={device}: this GPU cannot work on the host's memory; use graph_in=device.")
    return seen
