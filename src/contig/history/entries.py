"""The entries of nodes, counted and collected from the columns of events a chunk at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from contig.data.columns import Array
from contig.kernels.placement import place_entries

CHUNK = 1 << 21  # events read at once


def count_entries(src: Array, dst: Array, nodes: int) -> NDArray[np.int64]:
    """Count the entries of every node: the events that it takes part in, one with itself once."""
    counts = np.zeros(nodes, np.int64)
    for first in range(0, len(src), CHUNK):
        one, other = src[first : first + CHUNK], dst[first : first + CHUNK]
        for ends in (one, other[one != other]):
            found = np.bincount(ends)
            counts[: len(found)] += found
    return counts


def collect_entries(columns: Sequence[Array], first: int, length: NDArray[np.int64]) -> tuple[Array, ...]:
    """Return event, other end and time of all entries of consecutive nodes, by node and in stream order."""
    src, dst, t = columns
    total = int(length.sum())
    entries = np.empty(total, np.int32), np.empty(total, np.int32), np.empty(total, t.dtype)
    cursor = np.cumsum(length) - length
    for begin in range(0, len(src), CHUNK):
        part = slice(begin, begin + CHUNK)
        rows = [np.asarray(column[part]) for column in (src, dst, t)]
        place_entries(entries, cursor, first, begin, *rows)
    return entries
