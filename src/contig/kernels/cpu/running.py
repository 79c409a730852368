"""Running the compiled loops on tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from contig.kernels.accelerators import in_parallel, ranges


def run(name: str, *given: Any, over: int, least: int = 1) -> None:
    """A loop of ``contig.kernels.cpu.loops``, its axis of ``over`` items shared among the threads.

    No thread gets fewer than ``least`` of them: waking one takes time, too. What is written to must be
    contiguous.
    """
    from contig.kernels.cpu import loops  # here, since compiling takes numba

    arrays, loop = [_array(x) for x in given], getattr(loops, name)
    threads = min(torch.get_num_threads(), over // least)
    in_parallel(lambda first, end: loop(*arrays, first, end), ranges(over, threads))


def _array(given: Any) -> Any:
    """What a loop takes: tensors as arrays, copied where they are not contiguous; the rest as it is."""
    if isinstance(given, tuple):
        return tuple(_array(x) for x in given)
    return given.detach().contiguous().numpy() if isinstance(given, Tensor) else given
