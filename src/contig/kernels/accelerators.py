"""What the machine has for compiled code: numba for loops on all cores, Triton for kernels."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise

KEPT = 2**28  # bytes of freed memory; several steps' worth
LARGE = 2**25  # bytes of what is fetched from the system on its own, and given back at once
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # glibc's names for the two


def keep_freed_memory() -> None:
    """Keep what a step frees for the next one instead of giving it back to the system.

    Else every step takes thousands of page faults, a tenth of its time. It holds for the whole process
    and is therefore for programs, not for a library, to ask; without glibc nothing happens.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if set_option is not None:
        set_option(_MMAP_THRESHOLD, LARGE)
        set_option(_TRIM_THRESHOLD, KEPT)


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    """Threads of our own: numba's abort the process when two callers meet in them."""
    return ThreadPoolExecutor(workers, thread_name_prefix="contig")


if hasattr(os, "register_at_fork"):  # a child has none of its parent's threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


def ranges(count: int, parts: int) -> list[tuple[int, int]]:
    """``0..count`` cut into ``parts`` ranges of nearly one size, as many as there can be."""
    parts = max(1, min(parts, count))
    return list(pairwise(count * i // parts for i in range(parts + 1)))


def in_parallel(work: Callable[[int, int], None], parts: Sequence[tuple[int, int]]) -> None:
    """``work(first, end)`` of every part at the same time; it must let go of the interpreter to gain."""
    if len(parts) > 1:
        waiting = [_pool(len(parts) - 1).submit(work, *part) for part in parts[1:]]
        work(*parts[0])
        for one in waiting:
            one.result()
    else:
        work(*parts[0])
