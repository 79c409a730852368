"""The one way through a stream: read a batch, learn from it, then observe it.

Training, every task, replays and past states walk here. What they read from a batch differs; that a batch is
read before it is observed does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contig.history import History
from contig.models.contract import EventBatch, Model
from contig.models.state import NodeState, Room
from contig.ranks import Ranks, ranks
from contig.streaming.capture import Captured, Compiled, has_fixed_shapes
from contig.streaming.divided import Division
from contig.streaming.packing import Counts, Rooms, fits, rooms_needed
from contig.streaming.schedule import BatchSchedule, Step

Progress = Callable[[int], None]  # takes the number of events just done


def no_progress(events: int) -> None:
    """Ignore progress."""


class Walker:
    """Moves a model's state through events, batch by batch.

    ``read`` computes a tensor from a batch and changes nothing; it sees the state as it was before the batch.
    ``learn`` turns that tensor into the step's result and may change weights. Then the events
    strictly before the next batch are observed. Without ``read`` a step only observes.

    On a GPU steps are captured where the model's shapes allow it, and ``compiled`` fuses reading and
    observing. ``capacity`` is the largest number of events that ``start`` may be given.
    """

    def __init__(
        self,
        model: Model,
        state: NodeState,
        history: History,
        batch_size: int,
        read: Callable[[EventBatch], Tensor] | None = None,
        learn: Callable[[Tensor], Tensor] | None = None,
        *,
        capacity: int | None = None,
        compiled: bool = False,
    ) -> None:
        self.model, self.state, self.history = model, state, history
        size = history.num_events if capacity is None else capacity
        self.schedule = BatchSchedule(size, batch_size, history.device)
        self._read, self._learn = read, learn
        self.reading = Compiled(self._read_batch, compiled)
        self.observing = Compiled(self._observe_batch, compiled)
        self.captured = Captured(
            self._fast_step,
            self._eager_step,
            history.device,
            capturable=has_fixed_shapes(model) and ranks().alone,
        )
        self._counts: Counts | None = None
        self._rooms: Rooms | None = None
        self._ranks = ranks()
        self._division = Division.of(model, state, history, self._ranks)
        self._divided = False  # whether each rank reads its part of a batch

    @property
    def steps(self) -> list[Step]:
        """The batches of this walk."""
        return self.schedule.steps

    def start(self, events: NDArray[np.int64], counts: Counts | None = None) -> None:
        """Walk over these events (ascending positions) from now on.

        ``counts`` are the distinct nodes of each batch, where they are known.
        """
        self.schedule.reset(events, self.history)
        self.expect(counts)

    def expect(self, counts: Counts | None) -> None:
        """Set the distinct nodes of each batch; the room of a captured step stays what it was."""
        self._counts = counts
        self._rooms = self._rooms or rooms_needed(counts)

    def step(self, number: int) -> Tensor:
        """Walk one batch; the result stays on the device, and is valid until the next step."""
        regular = self.schedule.is_regular(number) and fits(self._counts, number, self._rooms)
        result = self.captured(number, regular=regular)
        if end := self.steps[number].observe_to:
            self.state.position = int(self.schedule.positions[end - 1]) + 1
        return result

    @torch.no_grad()
    def walk(self, progress: Progress = no_progress) -> Iterator[Tensor]:
        """Walk all batches in evaluation mode; yield a copy of each result."""
        self.model.eval()
        for number, step in enumerate(self.steps):
            yield self.step(number).clone()
            progress(step.stop - step.start)

    def read_all(
        self,
        events: NDArray[np.int64],
        progress: Progress = no_progress,
        counts: Counts | None = None,
        *,
        shape: tuple[int, ...] = (),
    ) -> NDArray[np.float32]:
        """Walk these events and return what was read of them, ``[events, *shape]``, as float32.

        Several ranks divide each batch; each of them returns everything.
        """
        found: NDArray[np.float32] = self._read_all(events, progress, counts, shape).float().cpu().numpy()
        return found

    def read_scores(
        self,
        events: NDArray[np.int64],
        progress: Progress = no_progress,
        counts: Counts | None = None,
        *,
        shape: tuple[int, ...] = (),
    ) -> NDArray[np.floating[Any]]:
        """Read as ``read_all`` does, but keep float64: rounded to float32, exact scores would tie."""
        found = self._read_all(events, progress, counts, shape)
        scores: NDArray[np.floating[Any]] = (
            found.to(torch.promote_types(found.dtype, torch.float32)).cpu().numpy()
        )
        return scores

    def _read_all(
        self, events: NDArray[np.int64], progress: Progress, counts: Counts | None, shape: tuple[int, ...]
    ) -> Tensor:
        self.start(events, counts)
        self._divided = not self._ranks.alone
        try:
            results = list(self.walk(progress))
        finally:
            self._divided = False
        return torch.cat(results) if results else torch.zeros(0, *shape)

    def _fast_step(self, number: Tensor) -> Tensor:
        return self._run(self._read_in_room, self._observe_in_room, number)

    def _read_in_room(self, number: Tensor) -> Tensor:
        with self.state.room_for(self._rooms.reading if self._rooms else Room()):
            return self.reading(number)

    def _observe_in_room(self, number: Tensor) -> Tensor:
        with self.state.room_for(self._rooms.observing if self._rooms else Room()):
            return self.observing(number)

    def _eager_step(self, number: int) -> Tensor:
        return self._run(self._read_together, self._observe_together, number)

    def _run(
        self,
        read: Callable[..., Tensor],
        observe: Callable[..., Tensor],
        number: int | Tensor,
    ) -> Tensor:
        if self._read is None:
            return observe(number)
        result = read(number)
        if self._learn is not None:
            result = self._learn(result)
        observe(number)
        return result

    def _read_batch(self, number: int | Tensor) -> Tensor:
        assert self._read is not None
        batch = EventBatch.of(self.history, self.schedule.scored(number))
        if self._divided:
            return _divided(self._read_part, batch, self._ranks)
        return self._read_part(batch)

    def _read_together(self, number: int | Tensor) -> Tensor:
        """Read a batch; ranks that learn from it divide its nodes."""
        if self._division is None or self._learn is None:
            return self._read_batch(number)
        with self._division.reading():
            return self._read_batch(number)

    def _observe_together(self, number: int | Tensor) -> Tensor:
        """Observe a batch; ranks that have divided it divide its nodes, too. Others may walk alone."""
        if self._division is None or not (self._divided or self._learn):
            return self._observe_batch(number)
        with self._division.observing():
            return self._observe_batch(number)

    def _read_part(self, batch: EventBatch) -> Tensor:
        """Read a batch, or this rank's part of it."""
        assert self._read is not None
        result = self._read(batch)
        self.state.finish()
        return result

    @torch.no_grad()
    def _observe_batch(self, number: int | Tensor) -> Tensor:
        events = self.schedule.observed(number)
        self.model.observe(self.state, self.history, EventBatch.of(self.history, events))
        return events


def _divided(read: Callable[[EventBatch], Tensor], batch: EventBatch, here: Ranks) -> Tensor:
    """Read this rank's part of a batch, and return that of all ranks."""
    count = len(batch.event)
    begin, end = here.bounds(count)
    if begin == end:  # nothing to read; one event shows the shape
        return here.gathered(read(batch.part(slice(0, 1)))[:0], count)
    return here.gathered(read(batch.part(slice(begin, end))), count)


def replay(
    model: Model,
    state: NodeState,
    history: History,
    events: NDArray[np.int64],
    batch_size: int,
    progress: Progress = no_progress,
) -> None:
    """Observe ``events`` (ascending positions) in the batches in which they would be scored."""
    walker = Walker(model, state, history, batch_size, capacity=len(events))
    walker.start(events)
    for _ in walker.walk(progress):
        pass
