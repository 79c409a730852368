"""What a model remembers per node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from contig.kernels.pinned_memory import pinned_copy


class NodeState:
    """Named tensors with one row per node, which grow as nodes appear.

    ``blank`` holds the row a node starts with. ``position`` counts the events observed so far, so
    that state and history can be carried on from where they stopped. ``on_host`` leaves the rows in the
    host's memory while the device works on them.
    """

    def __init__(
        self,
        blank: Mapping[str, Tensor],
        num_nodes: int,
        device: str | torch.device = "cpu",
        *,
        on_host: bool = False,
    ) -> None:
        self.device, self.on_host = torch.device(device), on_host
        self.blank = {name: row.to(device) for name, row in blank.items()}
        self._room = {name: self._made(name, num_nodes) for name in self.blank}
        self.rows = dict(self._room)  # the first num_nodes rows of the room there is
        self.position = 0
        self._num_nodes = num_nodes

    def __getitem__(self, name: str) -> Tensor:
        return self.rows[name]

    @property
    def num_nodes(self) -> int:
        return self._num_nodes

    def grow(self, num_nodes: int) -> None:
        """Take in nodes up to ``num_nodes``, each with the blank row, in amortised O(1) each."""
        if num_nodes <= self._num_nodes:
            return
        for name, room in self._room.items():
            if num_nodes > len(room):
                self._room[name] = self._made(name, max(num_nodes, 2 * len(room)))
                self._room[name][: len(room)] = room
            self.rows[name] = self._room[name][:num_nodes]
        self._num_nodes = num_nodes

    def reset(self) -> None:
        """Forget everything, in place (captured graphs keep their addresses)."""
        for name, row in self.blank.items():
            self.rows[name].copy_(row.expand_as(self.rows[name]))
        self.position = 0

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values and tensors (not copied where there is no spare room)."""
        # a part of a larger tensor would be saved with all of it
        rows = {n: x if len(x) == len(self._room[n]) else x.clone() for n, x in self.rows.items()}
        return {"rows": rows, "position": self.position}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take over a snapshot's content, in place; nodes it does not know become blank."""
        for name, rows in saved["rows"].items():
            self.grow(len(rows))
            self.rows[name][: len(rows)].copy_(rows)
            self.rows[name][len(rows) :] = self.blank[name]
        self.position = saved["position"]

    def clone(self) -> NodeState:
        """A copy that can go its own way."""
        twin = NodeState(self.blank, self._num_nodes, self.device, on_host=self.on_host)
        twin.restore(self.snapshot())
        return twin

    def _made(self, name: str, count: int) -> Tensor:
        """So many blank rows."""
        row = self.blank[name]
        if self.on_host:
            return pinned_copy(row.cpu().expand(count, *row.shape), self.device)
        return row.repeat(count, *([1] * row.ndim))
