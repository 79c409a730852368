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
from contig.models.crowds import fits, room_above
from contig.models.engine import Captured, filled, room_for
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
        self._ask = ask
        self._room = room_for(batch_size)
        self._crowd: int | None = None
        self._step = Captured(
            self._ask_and_observe,
            (batch_size, self._room),
            fixed_shapes=model.fixed_shapes,
            plain=self._ask_and_observe_plainly,
        )

    def __call__(
        self,
        events: NDArray[np.int64],
        progress: Progress = lambda _: None,
        counts: NDArray[np.int64] | None = None,
    ) -> NDArray[np.float32]:
        """The answers ``[events, *shape]`` for ascending positions; weights do not change.

        ``counts`` are the distinct nodes that each batch is about, where they are known.
        """
        at = torch.from_numpy(events).to(self.history.device)
        times = self.history.events["t"][at].cpu().numpy()
        self.model.eval()
        answers = []
        self._crowd = self._crowd or room_above(counts)
        with torch.no_grad():
            for number, step in enumerate(schedule(times, self.batch_size)):
                seen = filled(at[step.seen : step.see], self._room)
                run = self._step if fits(counts, number, self._crowd) else self._step.plain
                answers.append(run(at[step.start : step.stop], seen))
                progress(step.stop - step.start)
        if not answers:
            return np.zeros((0, *self.shape), np.float32)
        self.state.position = int(events[-1]) + 1
        found: NDArray[np.float32] = torch.cat(answers).float().cpu().numpy()
        return found

    def _ask_and_observe(self, events: Tensor, seen: Tensor) -> Tensor:
        with self.model.within(self._crowd):
            return self._ask_and_observe_plainly(events, seen)

    def _ask_and_observe_plainly(self, events: Tensor, seen: Tensor) -> Tensor:
        answers = self._ask(EventBatch.of(self.history, events))
        self.model.observe(self.state, self.history, EventBatch.of(self.history, seen))
        return answers
