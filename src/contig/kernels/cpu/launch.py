"""Compile loops, and run them on tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from numba import njit
from torch import Tensor

from contig.kernels.threads import run_parallel, split_range


def compile_loop(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a loop whose sums may be taken in any order, so that they can be vectorized.

    No other part of IEEE arithmetic is relaxed: NaN and infinity keep their meaning.
    """
    fastmath = {"reassoc", "contract", "arcp", "nsz"}
    compiled: Callable[..., Any] = njit(cache=True, nogil=True, fastmath=fastmath)(function)
    return compiled


def run_loop(
    loop: Callable[..., None],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    *,
    items: int,
    min_items: int = 1,
) -> None:
    """Call ``loop(*inputs, *outputs, first, end)``, with ``0..items`` shared among torch's threads.

    No thread gets fewer than ``min_items``, since waking one takes time. Inputs that are not
    contiguous are copied, so outputs, which are written to, must be.
    """
    if not all(_is_contiguous(x) for x in outputs):
        raise ValueError("run_loop: an output is not contiguous, so its results would be lost in a copy")
    arrays = [_array(x) for x in (*inputs, *outputs)]
    threads = min(torch.get_num_threads(), items // min_items)
    run_parallel(lambda first, end: loop(*arrays, first, end), split_range(items, threads))


def _array(value: Any) -> Any:
    """Turn tensors, and tuples of them, into contiguous arrays; leave everything else as it is."""
    if isinstance(value, tuple):
        return tuple(_array(x) for x in value)
    if not isinstance(value, Tensor):
        return value
    value = value.detach() if value.requires_grad else value
    return value.contiguous().numpy()


def _is_contiguous(output: Any) -> bool:
    return output.is_contiguous() if isinstance(output, Tensor) else output.flags.c_contiguous
