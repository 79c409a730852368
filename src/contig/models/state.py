"""The state of a model: named tensors with one row per node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from contig.errors import ConfigError
from contig.kernels.file_memory import FileTensor, file_tensor
from contig.kernels.huge_pages import empty_table
from contig.kernels.pinned_memory import pinned_copy
from contig.options import check_count


class SavedRows(NamedTuple):
    """Some rows of a state as they were at a position in the stream."""

    position: int
    nodes: Tensor  # [n]
    rows: dict[str, Tensor]  # each [n, ...]

    def nbytes(self) -> int:
        """Return the size of the saved rows."""
        return sum(x.numel() * x.element_size() for x in (self.nodes, *self.rows.values()))


class Room(NamedTuple):
    """Upper bounds of the distinct nodes that one call computes, None where they are not known."""

    read: int | None = None
    linked: int | None = None  # including the nodes they are linked to


class RowSource(Protocol):
    """Where the computed rows of nodes come from, if a model does not simply compute all of them."""

    def rows(self, nodes: Tensor, as_of: Tensor, compute: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the rows of nodes at a reference time; ``compute`` computes those of some nodes."""


class RowCache:
    """Rows that were computed for nodes at one reference time, from a state that has not changed since."""

    def __init__(self) -> None:
        self._place = torch.empty(0, dtype=torch.int64)  # [nodes]: of a node's row, or -1
        self._rows: Tensor | None = None  # [rows, d]; the first ``count`` are in use
        self._nodes: list[Tensor] = []
        self._count = 0
        self._as_of: Tensor | None = None

    def clear(self) -> None:
        """Forget all rows, because the state changes."""
        for nodes in self._nodes:
            self._place[nodes] = -1
        self._nodes, self._count, self._as_of = [], 0, None

    def rows(self, nodes: Tensor, as_of: Tensor, compute: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the rows of nodes; ``compute`` computes those that are not known."""
        if self._as_of is None or not torch.equal(self._as_of, as_of):
            self.clear()
            self._as_of = as_of.clone()
        self._reserve(1 + int(nodes.max()), nodes.device)
        new = torch.unique(nodes[self._place[nodes] < 0])
        if len(new):
            self._add(new, compute(new))
        assert self._rows is not None
        return self._rows[self._place[nodes]]

    def _add(self, nodes: Tensor, rows: Tensor) -> None:
        end = self._count + len(nodes)
        if self._rows is None or end > len(self._rows):
            longer = rows.new_empty((2 * end, *rows.shape[1:]))
            if self._rows is not None:
                longer[: self._count] = self._rows[: self._count]
            self._rows = longer
        self._rows[self._count : end] = rows
        self._place[nodes] = torch.arange(self._count, end, device=nodes.device)
        self._nodes.append(nodes)
        self._count = end

    def _reserve(self, nodes: int, device: torch.device) -> None:
        if nodes > len(self._place):
            longer = torch.full((max(nodes, 2 * len(self._place)),), -1, device=device)
            longer[: len(self._place)] = self._place
            self._place = longer


class NodeState:
    """Named tensors with one row per node; rows are added as nodes appear.

    ``blank`` holds the row that a node starts with. ``position`` counts the events observed so far.
    ``on_host`` keeps the rows in the host's memory, where the device reads and writes them; ``on_disk``, on a
    CPU, in temporary files. ``room`` bounds the distinct nodes of a call (see ``contig.layers.unique``).
    """

    room = Room()
    # Where updated rows come from in observing and in reading; None: the model computes them.
    updates: RowSource | None = None
    reads: RowSource | None = None

    def __init__(
        self,
        blank: Mapping[str, Tensor],
        num_nodes: int,
        device: str | torch.device = "cpu",
        *,
        on_host: bool = False,
        on_disk: bool = False,
    ) -> None:
        check_count("num_nodes", num_nodes)
        _check_blank(blank)
        self.device, self.on_host = torch.device(device), on_host
        self.on_disk = on_disk and self.device.type == "cpu"
        self.blank = {name: row.to(device) for name, row in blank.items()}
        self._tables = {name: self._blank_table(name, num_nodes) for name in self.blank}
        self.rows = {name: table.rows for name, table in self._tables.items()}  # the first num_nodes of them
        self.position = 0
        self._num_nodes = num_nodes

    def __getitem__(self, name: str) -> Tensor:
        """Return the rows ``[nodes, ...]`` of that name; write to them in place."""
        return self.rows[name]

    @property
    def num_nodes(self) -> int:
        """The number of nodes that have a row."""
        return self._num_nodes

    def grow(self, num_nodes: int) -> None:
        """Add blank rows up to ``num_nodes``, in amortized constant time per node."""
        if num_nodes <= self._num_nodes:
            return
        for name, old in self._tables.items():
            if num_nodes > (known := len(old.rows)):
                self._tables[name] = self._blank_table(name, max(num_nodes, 2 * known))
                self._tables[name].in_order()[:known] = old.in_order()
            self.rows[name] = self._tables[name].rows[:num_nodes]
        self._num_nodes = num_nodes

    @contextmanager
    def room_for(self, room: Room) -> Iterator[None]:
        """Declare that inside this block no call computes more distinct nodes than ``room`` allows."""
        before, self.room = self.room, room
        try:
            yield
        finally:
            self.room = before

    def reset(self) -> None:
        """Make every row blank again, in place: captured CUDA graphs keep their addresses."""
        for name, row in self.blank.items():
            rows = self._all_rows(name)
            rows.copy_(row.expand_as(rows))
        self.position = 0

    def save_rows(self, nodes: Tensor) -> SavedRows:
        """Copy the rows of some nodes, to return to them with ``restore_rows``."""
        return SavedRows(self.position, nodes, {name: rows[nodes] for name, rows in self.rows.items()})

    def restore_rows(self, saved: SavedRows) -> None:
        """Write saved rows back, and the position; all other rows stay as they are."""
        for name, rows in saved.rows.items():
            self.rows[name][saved.nodes] = rows
        self.position = saved.position

    def finish(self) -> None:
        """Record that a batch has been read, which a state that is divided among ranks needs to know."""

    def snapshot(self) -> dict[str, Any]:
        """Return the state as plain values and tensors, to save; the tensors may be the state's own."""
        return {"rows": {name: self._saved(name) for name in self._tables}, "position": self.position}

    def _saved(self, name: str) -> Tensor:
        rows = self._all_rows(name)
        if len(rows) == len(self._tables[name].rows):
            return rows
        # torch saves a view together with the whole tensor behind it
        return file_tensor(rows.shape, rows.dtype).in_order().copy_(rows) if self.on_disk else rows.clone()

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Load a snapshot, in place; nodes that it does not contain become blank."""
        for name, rows in saved["rows"].items():
            self.grow(len(rows))
            own = self._all_rows(name)
            own[: len(rows)].copy_(rows)
            own[len(rows) :] = self.blank[name]
        self.position = saved["position"]

    def clone(self) -> NodeState:
        """Return an independent copy."""
        copy = self.blank_like(self._num_nodes)
        copy.restore(self.snapshot())
        return copy

    def __deepcopy__(self, memo: Mapping[int, Any]) -> NodeState:
        """Return an independent copy: the rows of a state on disk are copied into files of their own."""
        return self.clone()

    def blank_like(self, num_nodes: int) -> NodeState:
        """Return a blank state in the same kind of memory."""
        return NodeState(self.blank, num_nodes, self.device, on_host=self.on_host, on_disk=self.on_disk)

    def _all_rows(self, name: str) -> Tensor:
        """Return the rows of all nodes for a pass over them."""
        return self._tables[name].in_order()[: self._num_nodes]

    def _blank_table(self, name: str, count: int) -> FileTensor:
        if self.on_disk:
            row = self.blank[name]
            table = file_tensor((count, *row.shape), row.dtype)
            table.in_order().copy_(row.expand_as(table.rows))
            return table
        return FileTensor(self._blank_rows(name, count))

    def _blank_rows(self, name: str, count: int) -> Tensor:
        row = self.blank[name]
        if self.on_host:
            return pinned_copy(row.cpu().expand(count, *row.shape), self.device)
        if self.device.type == "cpu":
            rows = empty_table((count, *row.shape), row.dtype)
            return rows.copy_(row.expand_as(rows))
        return row.repeat(count, *([1] * row.ndim))


def _check_blank(blank: Any) -> None:
    if not isinstance(blank, Mapping) or not all(isinstance(row, Tensor) for row in blank.values()):
        raise ConfigError(f"blank={blank!r}: expected tensors by name, the row that a node starts with.")
