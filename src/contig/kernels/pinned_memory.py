"""Tensors in host memory that a GPU works on, for graphs larger than its own memory.

Pinned (page-locked) memory has an address that the GPU can read and write over the bus: a kernel
that needs a few rows of a large table transfers just those, without a copy to wait for, and inside
a CUDA graph too. To torch it is a tensor on the GPU like any other.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from contig.errors import ConfigError


class _GpuView:
    """Pinned memory as seen from the GPU, in the protocol by which array libraries exchange memory."""

    def __init__(self, held: Tensor) -> None:
        self.held = held  # kept alive by every tensor that is made of this view

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


def pinned_copy(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy ``tensor`` to pinned host memory and return it as a tensor on ``device``.

    Pinned memory is allocated in powers of two, up to twice the tensor's size. On a CPU this is a
    plain copy.
    """
    if device.type != "cuda":
        return tensor.to(device, copy=True, memory_format=torch.contiguous_format)
    if not tensor.numel():
        return tensor.to(device)  # there is no memory to view
    with torch.cuda.device(device):
        # The allocator may hand out pinned memory that was just freed and that a kernel still uses: it
        # keeps track of copies only.
        torch.cuda.synchronize(device)
        held = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        held.copy_(tensor)
        view = torch.as_tensor(_GpuView(held), device=device)
    if view.data_ptr() != held.data_ptr():
        raise ConfigError(f"device={device}: this GPU cannot access host memory; use graph_in=device.")
    return view
