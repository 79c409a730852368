"""Rows that repeat others: a number that equal rows share, and how many rows of a stream repeat one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from contig.data.columns import Array
from contig.data.events import EventStream

Ints = NDArray[np.int64]


def repeated_rows(stream: EventStream) -> int | None:
    """Count the events with the same source, destination, time and features as an earlier one.

    Only events at the time of another are compared, by sorting them. None for an index on disk, of which
    nothing is read.
    """
    if isinstance(stream.t, np.memmap):
        return None
    equal = stream.t[1:] == stream.t[:-1]
    tied = np.zeros(len(stream), dtype=bool)
    tied[1:] |= equal
    tied[:-1] |= equal
    rows = np.flatnonzero(tied)
    numbers = numbered_rows([column[rows] for column in (stream.src, stream.dst, stream.t)])
    if stream.edge_features is not None and stream.edge_width:
        several = np.bincount(numbers)[numbers] > 1  # the others need no look at their features
        numbers = numbered_rows([numbers[several], stream.edge_features[rows[several]]])
    return len(numbers) - len(np.unique(numbers))


def numbered_rows(columns: Sequence[Array]) -> Ints:
    """Return a number for each row of some columns, the same for equal rows."""
    flat = [column if column.ndim == 1 else _numbered_vectors(column) for column in columns]
    order = np.lexsort(flat)
    changed = np.zeros(len(order), dtype=np.int64)
    for column in flat:
        changed[1:] |= column[order][1:] != column[order][:-1]
    numbers = np.empty(len(order), dtype=np.int64)
    numbers[order] = np.cumsum(changed)
    return numbers


def _numbered_vectors(vectors: Array) -> Ints:
    """Return a number for each vector, the same for equal bytes."""
    size = vectors.shape[1] * vectors.itemsize
    as_bytes = np.ascontiguousarray(vectors).view(np.dtype((np.void, size))).ravel()
    numbers: Ints = np.unique(as_bytes, return_inverse=True)[1]
    return numbers
