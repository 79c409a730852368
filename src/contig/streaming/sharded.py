"""Node state divided among ranks: each holds the rows of its own nodes, and fetches the others it reads.

Node ``v`` belongs to rank ``v % ranks``. Models use the state as usual: where ``state["h"][nodes]`` needs
rows of other ranks, they are requested from their owners in one exchange, which all ranks take part in. What
was fetched is kept until something is written. Every rank writes the rows of a batch that are its own.

Ranks may need different numbers of exchanges to read their parts of a batch. One that has finished answers
the others (``finish``) until all of them have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

import torch
from torch import Tensor

from contig.errors import ConfigError, unknown
from contig.models.state import NodeState
from contig.ranks import Ranks

StateLayout = Literal["replicated", "sharded"]
LAYOUTS: tuple[StateLayout, ...] = ("replicated", "sharded")


def checked_layout(name: str) -> StateLayout:
    """Return a layout; raise ``ConfigError`` if there is none of this name."""
    for layout in LAYOUTS:
        if layout == name:
            return layout
    raise ConfigError(unknown("layout of the state", str(name), LAYOUTS))


class ShardedRows:
    """The rows of one name, ``[nodes, ...]``, with what models use of a tensor."""

    def __init__(self, state: ShardedState, name: str) -> None:
        self._state, self._name = state, name

    def __len__(self) -> int:
        return self._state.num_nodes

    def __getitem__(self, nodes: Tensor) -> Tensor:
        rows = self._state.read(self._name, nodes.flatten())
        return rows.view(*nodes.shape, *rows.shape[1:])

    def index_select(self, dim: int, nodes: Tensor) -> Tensor:
        """Return the rows of nodes."""
        return self[nodes]

    def __setitem__(self, nodes: Tensor, rows: Tensor) -> None:
        mine, at = self._state.mine(nodes)
        self._state.written(self._name)[at] = rows[mine]

    def scatter_reduce_(
        self, dim: int, nodes: Tensor, rows: Tensor, reduce: str, *, include_self: bool = True
    ) -> None:
        """Write as ``Tensor.scatter_reduce_`` does."""
        mine, at = self._state.mine(nodes)
        own = self._state.written(self._name)
        own.scatter_reduce_(dim, at, rows[mine], reduce, include_self=include_self)

    def index_add_(self, dim: int, nodes: Tensor, rows: Tensor) -> None:
        """Write as ``Tensor.index_add_`` does."""
        mine, at = self._state.mine(nodes)
        self._state.written(self._name).index_add_(dim, at, rows[mine])

    def index_put_(self, nodes: tuple[Tensor], rows: Tensor, accumulate: bool = False) -> None:
        """Write as ``Tensor.index_put_`` does."""
        mine, at = self._state.mine(nodes[0])
        self._state.written(self._name).index_put_((at,), rows[mine], accumulate=accumulate)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise ConfigError(
            f"state[{self._name!r}].{name} is not available where the state is divided among ranks; train "
            "this model with --state replicated."
        )


class ShardedState(NodeState):
    """A state of which this rank has the rows of its own nodes only."""

    def __init__(
        self, blank: Mapping[str, Tensor], num_nodes: int, device: str | torch.device, here: Ranks
    ) -> None:
        super().__init__(blank, 0, device)
        self._ranks = here
        self._own: dict[str, Tensor] = {}
        self.rows = {name: cast(Tensor, ShardedRows(self, name)) for name in self.blank}
        self._forget()
        self.grow(num_nodes)

    def grow(self, num_nodes: int) -> None:
        """Add blank rows up to ``num_nodes``."""
        count = (
            max(num_nodes, self._num_nodes) - self._ranks.rank + self._ranks.size - 1
        ) // self._ranks.size
        for name in self.blank:
            old = self._own.get(name, self._blank_rows(name, 0))
            self._own[name] = torch.cat([old, self._blank_rows(name, count - len(old))])
        self._num_nodes = max(num_nodes, self._num_nodes)

    def reset(self) -> None:
        """Make every row blank again."""
        for name, row in self.blank.items():
            self._own[name].copy_(row.expand_as(self._own[name]))
        self.position = 0
        self._forget()

    def snapshot(self) -> dict[str, Any]:
        """Return the whole state, in the host's memory; all ranks call this together."""
        count = self._num_nodes
        rows = {}
        for name, own in self._own.items():
            parts = self._ranks.all_rows(own.cpu())
            rows[name] = own.new_empty((count, *own.shape[1:]), device="cpu")
            for rank, part in enumerate(parts):
                rows[name][rank :: self._ranks.size] = part
        return {"rows": rows, "position": self.position}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Keep this rank's rows of a snapshot."""
        for name, rows in saved["rows"].items():
            self.grow(len(rows))
            part = rows[self._ranks.rank :: self._ranks.size]
            self._own[name][: len(part)].copy_(part)
            self._own[name][len(part) :] = self.blank[name]
        self.position = saved["position"]
        self._forget()

    def clone(self) -> NodeState:
        """Return an independent copy, divided in the same way."""
        copy = ShardedState(self.blank, self._num_nodes, self.device, self._ranks)
        copy._own = {name: rows.clone() for name, rows in self._own.items()}
        copy.position = self.position
        return copy

    def mine(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Return which of these nodes are this rank's, and the places of those among its rows."""
        mine = nodes % self._ranks.size == self._ranks.rank
        return mine, nodes[mine] // self._ranks.size

    def written(self, name: str) -> Tensor:
        """Return this rank's rows, to write to; what was fetched is not valid any more."""
        self._forget()
        return self._own[name]

    # -- reading ---------------------------------------------------------------------------------

    def read(self, name: str, nodes: Tensor) -> Tensor:
        """Return the rows of nodes; those not fetched yet are requested from their owners."""
        unique, place = torch.unique(nodes, return_inverse=True)
        missing = unique[~torch.isin(unique, self._nodes, assume_unique=True)]
        if len(missing):
            self._fetch(missing)
        at = torch.searchsorted(self._nodes, unique)
        return self._fetched[name][at[place]]

    def finish(self) -> None:
        """Answer the other ranks until all of them have finished reading."""
        none = torch.empty(0, dtype=torch.int64, device=self.device)
        while self._exchange(none, finished=True) is not None:
            pass
        self._forget()

    def _forget(self) -> None:
        self._nodes = torch.empty(0, dtype=torch.int64, device=self.device)
        self._fetched = {name: self._blank_rows(name, 0) for name in self.blank}

    def _fetch(self, nodes: Tensor) -> None:
        """Add distinct nodes to those that were fetched, with their rows of all names."""
        nodes = nodes[torch.argsort(nodes % self._ranks.size, stable=True)]  # by owner
        packed = self._exchange(nodes, finished=False)
        assert packed is not None
        every = torch.cat([self._nodes, nodes])
        self._nodes, order = every.sort()
        for name, rows in self._unpacked(packed).items():
            self._fetched[name] = torch.cat([self._fetched[name], rows])[order]

    def _exchange(self, nodes: Tensor, *, finished: bool) -> Tensor | None:
        """Request the rows of nodes and answer what others request; None where all ranks have finished."""
        here = self._ranks
        counts = torch.bincount(nodes % here.size, minlength=here.size)
        header = torch.stack([counts.cpu(), torch.full((here.size,), int(finished))], dim=1)
        wanted, done = here.swap(header, [1] * here.size, [1] * here.size).unbind(1)
        if bool(done.all()):
            return None
        sent, received = counts.tolist(), wanted.tolist()
        requested = here.swap(nodes, sent, received)
        return here.swap(self._packed(requested // here.size), received, sent)

    def _packed(self, at: Tensor) -> Tensor:
        """Return the rows of all names at some places as bytes, ``[n, bytes]``."""
        parts = []
        for name, rows in self._own.items():
            flat = rows[at].reshape(len(at), self.blank[name].numel())
            parts.append(flat.view(torch.uint8))
        return torch.cat(parts, dim=1)

    def _unpacked(self, packed: Tensor) -> dict[str, Tensor]:
        rows, first = {}, 0
        for name, row in self.blank.items():
            size = row.numel() * row.element_size()
            # a copy, since the view of a single row would begin where numbers must not
            part = packed[:, first : first + size].clone(memory_format=torch.contiguous_format)
            rows[name] = part.view(row.dtype).view(len(packed), *row.shape)
            first += size
        return rows
