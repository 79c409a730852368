"""Snapshots of a state along the stream, in bounded memory."""

from __future__ import annotations

import threading
from typing import NamedTuple

import torch

from contig.models.state import NodeState, SavedRows

COUNT = 64  # once the whole stream was walked; up to twice as many while it grows
MAX_BYTES = 2**28


class Snapshot(NamedTuple):
    """The rows that changed since the snapshot before, as they were after ``number`` batches."""

    number: int
    changed: SavedRows


class Snapshots:
    """States at regular distances in a stream, each stored as what changed since the one before.

    They are added in order. When they become too many or too large, neighbors are merged and the distance
    doubles. Hold ``lock`` where several threads use them.
    """

    def __init__(self, batches: int, max_bytes: int = MAX_BYTES) -> None:
        self.distance = max(1, batches // COUNT)  # in batches
        self.max_bytes = max_bytes
        self.lock = threading.Lock()
        self._kept: list[Snapshot] = []

    @property
    def last(self) -> int:
        """The number of batches that the last snapshot contains; 0 if there is none."""
        return self._kept[-1].number if self._kept else 0

    def is_due(self, number: int) -> bool:
        """Return whether to add the state after this many batches."""
        return number > self.last and number % self.distance == 0

    def add(self, number: int, changed: SavedRows) -> None:
        """Add the rows that changed since the last snapshot."""
        self._kept.append(Snapshot(number, changed))
        while len(self._kept) > 1 and (len(self._kept) > 2 * COUNT or self.nbytes() > self.max_bytes):
            pairs = [self._kept[i : i + 2] for i in range(0, len(self._kept), 2)]
            self._kept = [pair[0] if len(pair) == 1 else _merged(*pair) for pair in pairs]
            self.distance *= 2

    def up_to(self, position: int) -> list[Snapshot]:
        """Return the snapshots that lead to the last one at or before a position in the stream."""
        return [one for one in self._kept if one.changed.position <= position]

    def nbytes(self) -> int:
        """Return the size of all snapshots."""
        return sum(one.changed.nbytes() for one in self._kept)


def _merged(first: Snapshot, second: Snapshot) -> Snapshot:
    """Return what changed over two consecutive distances."""
    before, after = first.changed, second.changed
    left = ~torch.isin(before.nodes, after.nodes)
    rows = {name: torch.cat([before.rows[name][left], after.rows[name]]) for name in after.rows}
    nodes = torch.cat([before.nodes[left], after.nodes])
    return Snapshot(second.number, SavedRows(after.position, nodes, rows))


def load(state: NodeState, snapshots: list[Snapshot]) -> None:
    """Make a state that of the last of these snapshots, which start with the first one of all."""
    state.reset()
    for snapshot in snapshots:
        state.restore_rows(snapshot.changed)
