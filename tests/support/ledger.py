"""A model whose state shows in which batches it was updated, and the same state computed with lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from contig.data.events import EventStream
from contig.history import History
from contig.models import EventBatch, Model, NodeState
from support.problems import stream_of

NODES = 5


class Ledger(Model):
    """A node's state folds in every batch that mentions it, so that other batches lead to another state."""

    name = "ledger"

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros((), dtype=torch.float64))
        self.log: list[tuple[str, Any]] = []

    def blank(self) -> dict[str, Tensor]:
        return {"account": torch.tensor(1), "weight": torch.tensor(-1.0, dtype=torch.float64)}

    def embed(self, *_: Any) -> Tensor:
        raise NotImplementedError

    def observe(self, state: NodeState, history: History, batch: EventBatch) -> None:
        assert not torch.is_grad_enabled()
        self.log.append(("observe", batch.event.tolist()))
        for node in {*batch.src.tolist(), *batch.dst.tolist()}:
            events = batch.event[(batch.src == node) | (batch.dst == node)].unique()  # repeats count once
            state["account"][node] = (7 * state["account"][node] + (events + 1).sum()) % 10_007
            state["weight"][node] = self.weight


def accounts_after(stream: EventStream, batches: Sequence[Sequence[int]]) -> list[int]:
    """The accounts of all nodes after these batches of events."""
    accounts = [1] * NODES
    for batch in batches:
        for node in range(NODES):
            involved = [e for e in batch if node in (stream.src[e], stream.dst[e])]
            if involved:
                accounts[node] = (7 * accounts[node] + sum(e + 1 for e in involved)) % 10_007
    return accounts


def batches_of(stream: EventStream, events: Sequence[int], size: int) -> list[tuple[list[int], list[int]]]:
    """Per batch the events to read and then to observe: all that are strictly before the next batch."""
    found, waiting = [], []
    for first in range(0, len(events), size):
        batch = list(events[first : first + size])
        waiting += batch
        following = events[first + size :]
        ready = [e for e in waiting if not len(following) or stream.t[e] < stream.t[following[0]]]
        waiting = [e for e in waiting if e not in ready]
        found.append((batch, ready))
    return found


def stream_at(times: Sequence[int]) -> EventStream:
    """Events at these times, between nodes in an irregular order."""
    return stream_of([(i * i % NODES, (3 * i + 1) % NODES, t) for i, t in enumerate(times)], NODES)
