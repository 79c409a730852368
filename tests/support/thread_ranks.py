"""Ranks that are threads of one process and exchange tensors in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from contig.ranks import Ranks


@dataclass(frozen=True)
class ThreadRanks(Ranks):
    """One of several threads."""

    everything: dict[int, Any] = field(default_factory=dict)
    barrier: threading.Barrier | None = None

    def _everyone(self, value: Any) -> list[Any]:
        assert self.barrier is not None
        self.everything[self.rank] = value
        self.barrier.wait(timeout=20)
        everyone = [self.everything[rank] for rank in range(self.size)]
        self.barrier.wait(timeout=20)
        return everyone

    def swap(self, rows: Tensor, sent: list[int], received: list[int]) -> Tensor:
        found = [parts[self.rank] for parts in self._everyone(rows.split(sent))]
        assert [len(part) for part in found] == received
        return torch.cat(found)

    def all_rows(self, rows: Tensor) -> list[Tensor]:
        return self._everyone(rows)

    def gathered(self, part: Tensor, count: int) -> Tensor:
        every = torch.cat(self._everyone(part))
        assert len(every) == count
        return every


def run_ranks(size: int, work: Callable[[ThreadRanks], Any]) -> list[Any]:
    """Let every rank work in a thread of its own, and return what each returns."""
    everything: dict[int, Any] = {}
    barrier, results = threading.Barrier(size), {}

    def run(rank: int) -> None:
        try:
            results[rank] = work(ThreadRanks(rank, size, everything, barrier))
        except BaseException:
            barrier.abort()
            raise

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == size
    return [results[rank] for rank in range(size)]
