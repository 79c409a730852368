"""The branches that only a GPU takes, run on a CPU: captured steps, and nodes that are packed into rooms."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from contig.layers import unique
from contig.models import contig
from contig.models.bases import memory
from contig.streaming import packing
from contig.streaming.walker import Walker
from contig.tasks import link_scoring
from contig.training import session


class StepsByTensor:
    """Runs the regular batches of a walker as a captured step does, in plain calls; counts them."""

    def __init__(self, walker: Walker) -> None:
        self.walker, self.count = walker, 0
        walker.captured = self  # type: ignore[assignment]

    def __call__(self, number: int, *, regular: bool) -> Tensor:
        if not regular:
            return self.walker._eager_step(number)
        self.count += 1
        return self.walker._fast_step(torch.tensor([number]))


def pack_as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Count and pack nodes, into rooms for exactly the largest batch; return the rooms that are used."""
    used: set[int] = set()

    def packed(ids: Tensor, num_nodes: int, room: int | None, **_: bool) -> tuple[Tensor, Tensor]:
        if room is not None and room < min(num_nodes, len(ids)):
            assert len(ids.unique()) <= room
            used.add(room)
            return unique.pack(ids, num_nodes, room)
        if num_nodes < len(ids):
            return torch.arange(num_nodes), ids
        return ids, torch.arange(len(ids))

    for module in (contig, memory):
        monkeypatch.setattr(module, "packed", packed)
    monkeypatch.setattr(memory, "mentioned", lambda ids, num_nodes: ids)
    for module in (session, link_scoring):
        monkeypatch.setattr(module, "count_nodes", packing.count_each_batch)
    monkeypatch.setattr(packing, "GRANULARITY", 1)
    monkeypatch.setattr(packing, "SPARE", 1.0)
    monkeypatch.setattr(packing, "MENTIONS_AT_ONCE", 32 * 200)  # a few batches in one call
    monkeypatch.setattr(packing, "MARKS_AT_ONCE", 3000)
    monkeypatch.setattr(packing, "NODES_AT_ONCE", 50)
    return used
