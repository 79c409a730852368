"""What recommendations need to know about both sides of the events so far."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from contig.data.columns import Array
from contig.data.ids import Side
from contig.history import History
from contig.history.columns import comparable_times

Ints = NDArray[np.int64]


class Partners:
    """The candidates of each side, and the events of single nodes, from arrays that grow with the nodes."""

    def __init__(self, history: History) -> None:
        self.history = history
        nodes = history.num_nodes
        columns = history.events
        t = columns.happened.cpu().numpy()
        self._never = np.iinfo(t.dtype).max if t.dtype.kind == "i" else np.inf
        # the time of the first event, in the type of the events: float64 is too coarse for nanoseconds
        self._first = {side: np.full(nodes, self._never, t.dtype) for side in ("src", "dst")}
        self._count = {side: np.zeros(nodes, np.int64) for side in ("src", "dst")}
        self._candidates: dict[str, Ints] = {}
        self.add(columns["src"].cpu().numpy(), columns["dst"].cpu().numpy(), t)

    def add(self, src: Ints, dst: Ints, t: Array) -> None:
        """Count events that were appended."""
        if not len(t):
            return
        size = 1 + int(max(src.max(), dst.max()))
        for side, nodes in (("src", src), ("dst", dst)):
            self._reserve(side, size)
            if (self._first[side][nodes] == self._never).any():
                self._candidates.pop(side, None)
            np.minimum.at(self._first[side], nodes, t)
            np.add.at(self._count[side], nodes, 1)

    def _reserve(self, side: str, size: int) -> None:
        held = len(self._count[side])
        if size > held:
            more = max(size, 2 * held) - held
            first = self._first[side]
            self._first[side] = np.concatenate([first, np.full(more, self._never, first.dtype)])
            self._count[side] = np.concatenate([self._count[side], np.zeros(more, np.int64)])

    def candidates(self, side: Side, time: Tensor) -> Ints:
        """Return the nodes to recommend to a node on a side: those of the other side before a time."""
        other = "dst" if side == "src" else "src"
        if other not in self._candidates:
            self._candidates[other] = np.flatnonzero(self._first[other] < self._never)
        found = self._candidates[other]
        early = self._first[other][found] < self._comparable(time).item()
        return found if early.all() else found[early]

    def counts(self, nodes: Ints, side: Side, time: Tensor) -> Ints:
        """Return how many events nodes have on the other side before a time."""
        other = "dst" if side == "src" else "src"
        columns = self.history.events
        at = self._comparable(time)
        if bool(at > columns["t"][-1]):
            return self._count[other][nodes]
        before = (columns.happened < at).cpu().numpy()
        counts = np.bincount(columns[other].cpu().numpy()[before], minlength=self.history.num_nodes)
        return counts[nodes]

    def met(self, node: int, side: Side, time: Tensor) -> Ints:
        """Return the nodes that a node has met on its side of an event before a time."""
        events, times = self._entries(node)
        columns = self.history.events
        mine, theirs = (columns[name][events] for name in ((side, "dst") if side == "src" else (side, "src")))
        return np.unique(theirs[(mine == node) & (times < self._comparable(time))].cpu().numpy())

    def last_events(self, node: int, k: int) -> tuple[Tensor, Tensor]:
        """Return the positions and times of the last ``k`` events of a node, newest first."""
        events, times = self._entries(node)
        return events[-k:].flip(0), times[-k:].flip(0)

    def _comparable(self, time: Tensor) -> Tensor:
        return comparable_times(time, self.history.events["t"].dtype)

    def _entries(self, node: int) -> tuple[Tensor, Tensor]:
        segments = self.history.segments
        start, length = int(segments.start[node]), int(segments.length[node])
        entries = slice(start, start + length)
        return segments.entry_event[entries].long(), segments.entry_time[entries]
