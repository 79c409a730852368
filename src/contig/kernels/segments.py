"""Growing lists of entries, one per node, in one pool of memory.

Every node owns a segment of the pool with its entries in stream order. A segment that is full moves
to the end of the pool and doubles its capacity, so that appending takes amortized O(1) per entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from contig.data.columns import Array

ENTRIES = ("entry_event", "entry_node", "entry_time")  # [pool]
ENTRIES_AT_ONCE = 1 << 22
SEGMENTS = ("start", "length", "capacity")  # [nodes]


@dataclass(eq=False)
class Segments:
    """The past events of every node as entries ``(event, node, time)`` in time order.

    An entry names the event, its other end and its time. Arrays may be longer than what is in use,
    so that growing is cheap.
    """

    entry_event: Tensor  # [pool] int32 or int64: the event's position in the stream
    entry_node: Tensor  # [pool] int32
    entry_time: Tensor  # [pool]; looking it up by event would miss the cache once per entry
    start: Tensor  # [nodes] int64: where the node's segment begins in the pool
    length: Tensor  # [nodes] int64: its entries
    capacity: Tensor  # [nodes] int64: entries it can hold before it must move
    used: int  # length of the part of the pool that is divided into segments
    longest: int  # the largest length

    @classmethod
    def with_capacity(cls, capacity: Tensor, event_dtype: torch.dtype, time_dtype: torch.dtype) -> Segments:
        """Return empty segments of the given capacities ``[nodes]``."""
        size = int(capacity.sum())
        return cls(
            entry_event=capacity.new_empty(size, dtype=event_dtype),
            entry_node=capacity.new_empty(size, dtype=torch.int32),
            entry_time=capacity.new_empty(size, dtype=time_dtype),
            start=torch.cumsum(capacity, 0) - capacity,
            length=torch.zeros_like(capacity),
            capacity=capacity,
            used=size,
            longest=0,
        )

    @property
    def device(self) -> torch.device:
        return self.start.device

    def arrays(self) -> dict[str, Tensor]:
        """Return all arrays by name."""
        return {name: getattr(self, name) for name in (*ENTRIES, *SEGMENTS)}

    def trimmed(self, nodes: int) -> dict[str, Tensor]:
        """Return all arrays by name, cut to what is in use for ``nodes`` nodes."""
        ends = dict.fromkeys(ENTRIES, self.used) | dict.fromkeys(SEGMENTS, nodes)
        return {name: array[: ends[name]] for name, array in self.arrays().items()}

    def reserve_entries(self, size: int) -> None:
        """Make the pool at least ``size`` long."""
        if size > len(self.entry_event):
            self._lengthen(ENTRIES, size, self.used)

    def reserve_nodes(self, count: int) -> None:
        """Make space for nodes ``0..count``; new ones get empty segments."""
        if count > len(self.start):
            self._lengthen(SEGMENTS, count, len(self.start))

    def widen_events(self) -> None:
        """Store event positions in 64 bits."""
        self._replace("entry_event", self.entry_event.long())

    def _lengthen(self, names: tuple[str, ...], size: int, used: int) -> None:
        """Double these arrays at least, so that growing takes amortized O(1) per element."""
        for name in names:
            old = getattr(self, name)
            new = old.new_zeros(max(size, 2 * len(old)))
            new[:used] = old[:used]
            self._replace(name, new)

    def _replace(self, name: str, array: Tensor) -> None:
        setattr(self, name, array)
        self.__dict__.pop("as_numpy", None)  # it views the old memory

    @cached_property
    def as_numpy(self) -> tuple[Array, ...]:
        """All arrays as numpy views; converting them for every query would take longer than a small query."""
        return tuple(array.numpy() for array in self.arrays().values())

    def __getstate__(self) -> dict[str, Any]:
        # the views of a copy would not share memory with its tensors
        return {name: value for name, value in self.__dict__.items() if name != "as_numpy"}


def node_ranges(length: Tensor, first: int = 0, entries: int = ENTRIES_AT_ONCE) -> Iterator[tuple[int, int]]:
    """Divide the nodes from ``first`` on into ranges with at most this many entries, or of one node."""
    ends = torch.cumsum(length, 0)
    while first < len(length):
        done = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(torch.searchsorted(ends, done + entries, right=True)))
        yield first, last
        first = last


def concatenated_ranges(first: Tensor, counts: Tensor) -> Tensor:
    """Return ``first[i], first[i] + 1, ...``, ``counts[i]`` numbers each, one range after the other."""
    if not len(counts):
        return counts.new_empty(0)
    end = torch.cumsum(counts, 0)
    total = torch.arange(int(end[-1]), device=end.device)
    return (first - end + counts).repeat_interleave(counts) + total
