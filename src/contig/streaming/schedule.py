"""How a stream is walked: score a batch, then observe what lies strictly before the next one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from contig.data.events import Array
from contig.errors import ConfigError
from contig.history import History


class Step(NamedTuple):
    """One batch ``[start, stop)`` to score; afterwards the events ``[seen, see)`` are observed."""

    start: int
    stop: int
    seen: int
    see: int


def schedule(times: Array, batch_size: int) -> list[Step]:
    """Batches of ``batch_size`` events that never let a state know an event of the query's own time.

    Where a batch ends between events of one time, those events are scored as they come but observed
    only once time has moved on; everything is observed in the end.
    """
    check_size(batch_size)
    if not len(times):
        return []
    starts = np.arange(0, len(times), batch_size)
    stops = np.minimum(starts + batch_size, len(times))
    see = np.full(len(starts), len(times))
    see[:-1] = np.searchsorted(times, times[stops[:-1]], side="left")
    seen = np.concatenate([[0], see[:-1]])
    rows = zip(starts.tolist(), stops.tolist(), seen.tolist(), see.tolist(), strict=True)
    return [Step(*row) for row in rows]


def check_size(batch_size: int) -> None:
    """Refuse a batch of nothing."""
    if batch_size < 1:
        raise ConfigError(f"batch_size={batch_size}: a batch needs at least one event.")


class Course:
    """The batches of a walk, each found by its number.

    A number is an int, or a tensor ``[1]`` on the device itself: then what it finds always has the same
    shape, and a step that is recorded once finds the next batch without a word from the host. A course
    has room for ``capacity`` events and can be laid again in the same memory, which such a step goes on
    reading.
    """

    def __init__(self, capacity: int, batch_size: int, device: torch.device) -> None:
        check_size(batch_size)
        self.batch_size = batch_size
        self.room = batch_size + batch_size // 4  # now and then a few are left over from the batch before
        self.steps: list[Step] = []
        self.events = torch.zeros(capacity, dtype=torch.int64, device=device)
        self._seen = torch.zeros((-(-capacity // batch_size), 2), dtype=torch.int64, device=device)

    def lay(self, events: Array, history: History) -> None:
        """Let it lead over these events (ascending positions) of a history from now on."""
        here = self.events[: len(events)]
        here.copy_(torch.from_numpy(events))
        self.steps = schedule(history.events["t"][here].cpu().numpy(), self.batch_size)
        seen = [(step.seen, step.see) for step in self.steps]
        self._seen[: len(seen)] = torch.tensor(seen, dtype=torch.int64).view(-1, 2)

    def regular(self, number: int) -> bool:
        """Whether a batch has the shapes that all have which are found by a tensor."""
        step = self.steps[number]
        return step.stop - step.start == self.batch_size and 0 < step.see - step.seen <= self.room

    def asked(self, number: int | Tensor) -> slice | Tensor:
        """The places of a batch's events in the course."""
        if isinstance(number, int):
            return slice(self.steps[number].start, self.steps[number].stop)
        return number * self.batch_size + torch.arange(self.batch_size, device=number.device)

    def seen(self, number: int | Tensor) -> Tensor:
        """The events to observe after a batch; found by a tensor, the last one several times.

        Observing does not notice that.
        """
        if isinstance(number, int):
            return self.events[self.steps[number].seen : self.steps[number].see]
        first, end = self._seen[number].unbind(1)
        places = first + torch.arange(self.room, device=number.device)
        return self.events[torch.minimum(places, end - 1)]
