"""Tensors in huge pages, for tables whose rows are read at random places."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

LEAST_BYTES = 1 << 22  # from which on numpy requests huge pages


def empty_table(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Return a tensor in host memory, in huge pages if it is large and the system has them.

    Numpy requests them from the system and torch does not. In a table of gigabytes, small pages make
    most random reads wait for an address, besides the data.
    """
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes < LEAST_BYTES:
        return torch.empty(shape, dtype=dtype)
    return torch.from_numpy(np.empty(nbytes, dtype=np.uint8)).view(dtype).view(shape)
