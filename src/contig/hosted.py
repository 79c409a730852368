"""Tensors that a GPU works on while they lie in the host's memory, for graphs larger than the card.

Page-locked memory has an address that the GPU can read and write itself, over the bus: a kernel that
takes a few rows of a large table moves those rows and nothing else, with no copy to wait for, inside a
captured graph too. To torch it is a tensor of the GPU like any other.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


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


def hosted(tensor: Tensor, device: torch.device) -> Tensor:
    """A copy of ``tensor`` in the host's memory that ``device`` works on."""
    on_gpu = device.type != "cpu"
    if on_gpu and not tensor.numel():
        return tensor.to(device)  # there is no memory to see
    held = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=on_gpu)
    held.copy_(tensor)
    return torch.as_tensor(_Seen(held), device=device) if on_gpu else held
