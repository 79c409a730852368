"""Computing the rows of nodes once among several ranks.

Neighboring events read many of the same nodes, so two halves of a batch read far more than half of its nodes
each. While they train, ranks therefore divide nodes as well as events: each computes the rows of some nodes,
in reading and in observing, and sends them to the ranks that need them. Gradients go back the same way.

Whatever a rank receives was computed once, so states and weights stay bit-identical on all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from contig.history import History
from contig.kernels.gather import gather_rows
from contig.models.bases.memory import MemoryModel
from contig.models.contract import Model
from contig.models.state import NodeState
from contig.ranks import Ranks

SPARE = 1.25  # room for lists of nodes, relative to the longest one so far

Compute = Callable[[Tensor], Tensor]  # takes nodes [n] and returns their rows [n, ...]
Groups = Callable[[Tensor], Tensor]  # takes nodes [n] and returns numbers [n]; see MemoryModel.grouping_key


class Division:
    """Divides the nodes whose rows a model computes among ranks, while a batch is read or observed.

    All ranks must read and observe the same number of times: each call exchanges rows with the others.
    """

    def __init__(self, model: MemoryModel, state: NodeState, history: History, here: Ranks) -> None:
        self._state = state
        groups = partial(model.grouping_key, state, history)
        self._requested = None if model.cheap_rows else RequestedRows(state, here, groups)
        self._common = CommonRows(state, here, groups)

    @classmethod
    def of(cls, model: Model, state: NodeState, history: History, here: Ranks) -> Division | None:
        """Return a division; None for a single process, or if the model computes its nodes together."""
        if here.alone or not isinstance(model, MemoryModel) or not model.independent_rows:
            return None
        return cls(model, state, history, here)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Divide the nodes that the ranks read, each in its own part of a batch."""
        self._state.reads = self._requested
        try:
            yield
        finally:
            self._state.reads = None

    @contextmanager
    def observing(self) -> Iterator[None]:
        """Divide the nodes that the ranks observe, the same ones on all of them."""
        before, self._state.updates = self._state.updates, self._common
        try:
            yield
        finally:
            self._state.updates = before


class Shares(NamedTuple):
    """Distinct nodes, those of each rank next to each other."""

    nodes: Tensor  # [distinct]
    place: Tensor  # of each given node among them

    @classmethod
    def of(cls, nodes: Tensor, groups: Groups) -> Shares:
        """Divide nodes ``[n]``, which may repeat; all ranks divide the same ones in the same way."""
        distinct, place = torch.unique(nodes, return_inverse=True)
        order = torch.argsort(groups(distinct), stable=True)
        return cls(distinct[order], torch.argsort(order)[place])

    def computed(self, compute: Compute, here: Ranks) -> Tensor:
        """Compute this rank's rows; without any, they are empty but have a shape and a gradient."""
        begin, end = here.bounds(len(self.nodes))
        return compute(self.nodes[begin:end]) if end > begin else compute(self.nodes[:1])[:0]


class NodeLists:
    """Lists of nodes of every rank, usually gathered in one exchange: former ones say how long they are."""

    def __init__(self, here: Ranks) -> None:
        self._ranks, self._room = here, 0

    def of_all(self, nodes: Tensor) -> list[Tensor]:
        """Return the nodes of each rank, whose numbers may differ."""
        while True:
            message = nodes.new_zeros(1, 1 + self._room)
            message[0, 0] = len(nodes)
            message[0, 1 : 1 + len(nodes)] = nodes[: self._room]
            every = self._ranks.gathered(message, self._ranks.size)
            counts = every[:, 0].tolist()
            if max(counts) <= self._room:  # the same on all ranks
                return [row[1 : 1 + count] for row, count in zip(every, counts, strict=True)]
            self._room = int(SPARE * max(counts))


class CommonRows:
    """Rows of nodes that all ranks need."""

    def __init__(self, state: NodeState, here: Ranks, groups: Groups) -> None:
        self._state, self._ranks, self._groups = state, here, groups

    def rows(self, nodes: Tensor, as_of: Tensor, compute: Compute) -> Tensor:
        """Return the rows of nodes, the same nodes on all ranks."""
        shares = Shares.of(nodes, self._groups)
        computed = shares.computed(compute, self._ranks)
        self._state.finish()
        return self._ranks.gathered(computed, len(shares.nodes))[shares.place]


class RequestedRows:
    """Rows of nodes of which each rank needs others."""

    def __init__(self, state: NodeState, here: Ranks, groups: Groups) -> None:
        self._state, self._ranks, self._groups = state, here, groups
        self._lists = NodeLists(here)

    def rows(self, nodes: Tensor, as_of: Tensor, compute: Compute) -> Tensor:
        """Return the rows of nodes, which may differ from rank to rank."""
        here = self._ranks
        self._state.finish()  # a rank that is still fetching rows of the state would miss the others
        needed, place = torch.unique(nodes, return_inverse=True)  # on a GPU nodes may repeat
        requested = self._lists.of_all(needed)
        shares = Shares.of(torch.cat(requested), self._groups)
        computed = shares.computed(compute, here)
        self._state.finish()
        places = shares.place.split([len(each) for each in requested])
        arrived, order = _delivered(computed, places, len(shares.nodes), here)
        return gather_rows(arrived, order[place])


def _delivered(computed: Tensor, places: Sequence[Tensor], count: int, here: Ranks) -> tuple[Tensor, Tensor]:
    """Send every rank the rows at its ``places`` among ``count``, of which each rank has computed its part.

    Returns those of this rank in the order of their senders, and where among them each of its places is.
    """
    begin, end = here.bounds(count)
    sent = [place[(place >= begin) & (place < end)] - begin for place in places]
    ends = torch.tensor([Ranks(rank, here.size).bounds(count)[1] for rank in range(here.size)])
    owner = torch.bucketize(places[here.rank], ends.to(computed.device), right=True)
    received = torch.bincount(owner, minlength=here.size).tolist()
    trip = Trip(here, [len(place) for place in sent], received)
    arrived: Tensor = _Sent.apply(gather_rows(computed, torch.cat(sent)), trip)  # type: ignore[no-untyped-call]
    return arrived, torch.argsort(torch.argsort(owner, stable=True))


class Trip(NamedTuple):
    """The numbers of rows that go from this rank to each rank, and from each rank to this one."""

    here: Ranks
    sent: list[int]
    received: list[int]

    def sent_out(self, rows: Tensor) -> Tensor:
        """Send rows, those for rank 0 first; return the ones that arrive."""
        return self.here.swap(rows, self.sent, self.received)

    def returned(self, rows: Tensor) -> Tensor:
        """Send a row for each that arrived; return a row for each that was sent."""
        return self.here.swap(rows, self.received, self.sent)


class _Sent(torch.autograd.Function):
    """Sends rows to other ranks, and their gradients back."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, trip: Trip) -> Tensor:
        ctx.trip = trip
        return trip.sent_out(rows)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        trip: Trip = ctx.trip
        return trip.returned(grads[0]), None
