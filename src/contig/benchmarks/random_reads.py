"""What reads of memory cost that no cache or prefetcher foresees."""

from __future__ import annotations

import time

import numpy as np

LINE = 8  # numbers per cache line
READS = 2_000_000


def random_read(nbytes: int) -> float:
    """Return the seconds of a read at a random place of this much memory, among many at a time."""
    lines = max(1, nbytes // (8 * LINE))
    memory = np.ones(lines * LINE, np.int64)  # touched: untouched pages are all the same
    places = np.random.default_rng(0).integers(0, lines, READS) * LINE
    read = np.empty(READS, np.int64)
    np.take(memory, places, out=read)
    start = time.perf_counter()
    np.take(memory, places, out=read)
    return (time.perf_counter() - start) / READS
