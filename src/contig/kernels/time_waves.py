"""Cosine and sine waves of time differences."""

from __future__ import annotations

import torch
from torch import Tensor

from contig.kernels.dispatch import backend


def time_waves(dt: Tensor, log_frequency: Tensor) -> Tensor:
    """Compute ``[cos(w dt) | sin(w dt)]`` with ``w = exp(log_frequency)``.

    Differences ``[...]`` and frequencies ``[m]`` give ``[..., 2 m]``.
    """
    if backend(dt.device) == "numba" and not dt.requires_grad:
        from contig.kernels.cpu import time_waves as compiled

        return compiled.time_waves(dt, log_frequency)
    return waves(dt, log_frequency.exp())


def waves(dt: Tensor, frequency: Tensor) -> Tensor:
    """Compute ``[cos(w dt) | sin(w dt)]`` with torch operations."""
    angle = dt.unsqueeze(-1) * frequency
    return torch.cat([torch.cos(angle), torch.sin(angle)], dim=-1)
