"""How every task goes through events: ask about a batch, then observe it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contig.batches import schedule
from contig.history import History
from contig.models.contract import EventBatch, Model
from contig.models.engine import Captured
from contig.models.state import NodeState

Progress = Callable[[int], None]


class Walk:
    """Asks ``ask`` about one batch after the other and moves the state past each.

    ``ask`` gives a row of ``shape`` for every event of its batch and only reads; it sees the state as
    it stood before the batch.
    """

    def __init__(
        self,
        model: Model,
        state: NodeState,
        history: History,
        batch_size: int,
        ask: Callable[[EventBatch], Tensor],
        shape: tuple[int, ...] = (),
    ) -> None:
        self.model, self.state, self.history, self.batch_size = model, state, history, batch_size
        self.shape = shape
        fixed = model.fixed_shapes
        self._ask = Captured(lambda events: ask(self._batch(events)), batch_size, fixed_shapes=fixed)
        self._observe = Captured(self._observe_events, batch_size, fixed_shapes=fixed)

    def __call__(self, events: NDArray[np.int64], progress: Progress = lambda _: None) -> NDArray[np.float32]:
        """The answers ``[events, *shape]`` for ascending positions; weights do not change."""
        at = torch.from_numpy(events).to(self.history.device)
        times = self.history.events["t"][at].cpu().numpy()
        self.model.eval()
        answers = []
        with torch.no_grad():
            for step in schedule(times, self.batch_size):
                answers.append(self._ask(at[step.start : step.stop]))
                self._observe(at[step.seen : step.see])
                progress(step.stop - step.start)
        if not answers:
            return np.zeros((0, *self.shape), np.float32)
        self.state.position = int(events[-1]) + 1
        found: NDArray[np.float32] = torch.cat(answers).float().cpu().numpy()
        return found

    def _batch(self, events: Tensor) -> EventBatch:
        return EventBatch.of(self.history, events)

    def _observe_events(self, events: Tensor) -> Tensor:
        self.model.observe(self.state, self.history, self._batch(events))
        return events
