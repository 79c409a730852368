"""What a read of memory costs that no cache or prefetcher foresees."""

from __future__ import annotations

import time

import numpy as np
from numba import njit
from numpy.typing import NDArray

LINE = 8  # numbers per cache line
READS = 200_000


def random_read(nbytes: int) -> float:
    """Return the seconds of a read at a random place of this much memory, each after the one before it."""
    lines = max(2, nbytes // (8 * LINE))
    order = np.random.default_rng(0).permutation(lines) * LINE
    following = np.zeros(lines * LINE, np.int64)
    following[order] = np.roll(order, -1)
    _follow(following, 1)
    start = time.perf_counter()
    _follow(following, READS)
    return (time.perf_counter() - start) / READS


@njit(cache=True)  # type: ignore[untyped-decorator]
def _follow(following: NDArray[np.int64], steps: int) -> int:
    at = 0
    for _ in range(steps):
        at = following[at]
    return at
