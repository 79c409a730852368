"""Run compiled code on several threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    # Not numba's own threads: they abort the process when two callers use them at the same time.
    return ThreadPoolExecutor(workers, thread_name_prefix="contig")


if hasattr(os, "register_at_fork"):  # threads do not survive a fork
    os.register_at_fork(after_in_child=_pool.cache_clear)


def split_range(count: int, parts: int) -> list[tuple[int, int]]:
    """Split ``0..count`` into at most ``parts`` ranges ``(first, end)`` of nearly equal size.

    There is always at least one range, and none is empty unless ``count`` is 0.
    """
    parts = max(1, min(parts, count))
    return list(pairwise(count * i // parts for i in range(parts + 1)))


def run_parallel(work: Callable[[int, int], None], ranges: Sequence[tuple[int, int]]) -> None:
    """Call ``work(first, end)`` for every range, each on its own thread.

    This is only faster if ``work`` releases the GIL. An exception in any range is raised here.
    """
    if len(ranges) > 1:
        pending = [_pool(len(ranges) - 1).submit(work, *part) for part in ranges[1:]]
        work(*ranges[0])
        for future in pending:
            future.result()
    else:
        work(*ranges[0])
