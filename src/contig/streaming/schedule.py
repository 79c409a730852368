"""The batches of a walk: score one, then observe the events strictly before the next."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contig.data.columns import Array
from contig.errors import ConfigError
from contig.history import History


class Step(NamedTuple):
    """One batch: score events ``[start, stop)``, then observe events ``[observe_from, observe_to)``."""

    start: int
    stop: int
    observe_from: int
    observe_to: int


def schedule(times: Array, batch_size: int) -> list[Step]:
    """Cut events into batches such that a batch is scored by a state that knows earlier times only.

    Where a batch ends inside a tie, the tied events are scored in order but observed only before a batch that
    starts at a later time. The last batch observes everything that is left.
    """
    check_batch_size(batch_size)
    if not len(times):
        return []
    starts = np.arange(0, len(times), batch_size)
    stops = np.minimum(starts + batch_size, len(times))
    observe_to = np.full(len(starts), len(times))
    observe_to[:-1] = np.searchsorted(times, times[stops[:-1]], side="left")
    observe_from = np.concatenate([[0], observe_to[:-1]])
    rows = zip(starts.tolist(), stops.tolist(), observe_from.tolist(), observe_to.tolist(), strict=True)
    return [Step(*row) for row in rows]


def check_batch_size(batch_size: int) -> None:
    """Refuse an empty batch."""
    if batch_size < 1:
        raise ConfigError(f"batch_size={batch_size}: a batch needs at least one event.")


def observe_size(batch_size: int) -> int:
    """Return how many events a regular batch may observe: now and then a few are left from the one before."""
    return batch_size + batch_size // 4


class BatchSchedule:
    """The batches of a walk, looked up by number.

    A number is an int, or a tensor ``[1]`` on the device: then the result has the same shape for every
    batch, and a captured step finds its next batch without the host. The memory has room for ``capacity``
    events and is reused by ``reset``, because a captured step keeps reading it.
    """

    def __init__(self, capacity: int, batch_size: int, device: torch.device) -> None:
        check_batch_size(batch_size)
        self.batch_size = batch_size
        self.observe_size = observe_size(batch_size)
        self.steps: list[Step] = []
        self.positions: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.events = torch.zeros(capacity, dtype=torch.int64, device=device)
        self._observed = torch.zeros((-(-capacity // batch_size), 2), dtype=torch.int64, device=device)

    def reset(self, events: NDArray[np.int64], history: History) -> None:
        """Walk over these events (ascending positions) of a history from now on."""
        self.positions = events
        here = self.events[: len(events)]
        here.copy_(torch.from_numpy(events))
        self.steps = schedule(history.events["t"][here].cpu().numpy(), self.batch_size)
        spans = [(step.observe_from, step.observe_to) for step in self.steps]
        self._observed[: len(spans)] = torch.tensor(spans, dtype=torch.int64).view(-1, 2)

    def is_regular(self, number: int) -> bool:
        """Return whether a batch has the shapes that lookups by a tensor give."""
        step = self.steps[number]
        whole = step.stop - step.start == self.batch_size
        return whole and 0 < step.observe_to - step.observe_from <= self.observe_size

    def scored(self, number: int | Tensor) -> Tensor:
        """Return the events to score in a batch."""
        if isinstance(number, int):
            return self.events[self.steps[number].start : self.steps[number].stop]
        places = number * self.batch_size + torch.arange(self.batch_size, device=number.device)
        return self.events[places]

    def observed(self, number: int | Tensor) -> Tensor:
        """Return the events to observe after a batch.

        Looked up by a tensor, the last one is repeated to fill the shape; observing it twice changes nothing.
        """
        if isinstance(number, int):
            return self.events[self.steps[number].observe_from : self.steps[number].observe_to]
        first, end = self._observed[number].unbind(1)
        places = first + torch.arange(self.observe_size, device=number.device)
        return self.events[torch.minimum(places, end - 1)]
