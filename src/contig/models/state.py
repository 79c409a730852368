"""What a model remembers per node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


class NodeState:
    """Named tensors with one row per node, which grow as nodes appear.

    ``blank`` holds the row a node starts with. ``position`` counts the events observed so far, so
    that state and history can be carried on from where they stopped.
    """

    def __init__(
        self, blank: Mapping[str, Tensor], num_nodes: int, device: str | torch.device = "cpu"
    ) -> None:
        self.blank = {name: row.to(device) for name, row in blank.items()}
        self.rows = {name: _repeat(row, num_nodes) for name, row in self.blank.items()}
        self.device = torch.device(device)
        self.position = 0
        self._num_nodes = num_nodes

    def __getitem__(self, name: str) -> Tensor:
        return self.rows[name]

    @property
    def num_nodes(self) -> int:
        return self._num_nodes

    def grow(self, num_nodes: int) -> None:
        """Take in nodes up to ``num_nodes``, each with the blank row."""
        new = num_nodes - self._num_nodes
        if new > 0:
            self.rows = {n: torch.cat([x, _repeat(self.blank[n], new)]) for n, x in self.rows.items()}
            self._num_nodes = num_nodes

    def reset(self) -> None:
        """Forget everything, in place (captured graphs keep their addresses)."""
        for name, row in self.blank.items():
            self.rows[name].copy_(row.expand_as(self.rows[name]))
        self.position = 0

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values and tensors (not copied)."""
        return {"rows": dict(self.rows), "position": self.position}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take over a snapshot's content, in place; nodes it does not know become blank."""
        for name, rows in saved["rows"].items():
            self.grow(len(rows))
            self.rows[name][: len(rows)].copy_(rows)
            self.rows[name][len(rows) :] = self.blank[name]
        self.position = saved["position"]

    def clone(self) -> NodeState:
        """A copy that can go its own way."""
        twin = NodeState(self.blank, self._num_nodes, self.device)
        twin.restore(self.snapshot())
        return twin


def _repeat(row: Tensor, count: int) -> Tensor:
    return row.unsqueeze(0).repeat(count, *([1] * row.ndim))
