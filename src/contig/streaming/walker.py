"""How every task goes through events: ask about a batch, then observe it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contig.history import History
from contig.models.contract import EventBatch, Model
from contig.models.state import NodeState
from contig.streaming.capture import Captured
from contig.streaming.packing import fits, room_above
from contig.streaming.schedule import Course

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
        self._course = Course(history.num_events, batch_size, history.device)
        self._crowd: int | None = None
        self._step = Captured(
            self._ask_and_observe,
            self._ask_and_observe_plainly,
            history.device,
            fixed_shapes=model.fixed_shapes,
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
        self._course.lay(events, self.history)
        self.model.eval()
        answers = []
        self._crowd = self._crowd or room_above(counts)
        with torch.no_grad():
            for number, step in enumerate(self._course.steps):
                regular = self._course.regular(number) and fits(counts, number, self._crowd)
                answers.append(self._step(number, regular=regular).clone())
                progress(step.stop - step.start)
        if not answers:
            return np.zeros((0, *self.shape), np.float32)
        self.state.position = int(events[-1]) + 1
        found: NDArray[np.float32] = torch.cat(answers).float().cpu().numpy()
        return found

    def _ask_and_observe(self, number: Tensor) -> Tensor:
        with self.model.within(self._crowd):
            return self._ask_and_observe_plainly(number)

    def _ask_and_observe_plainly(self, number: int | Tensor) -> Tensor:
        asked = self._course.events[self._course.asked(number)]
        answers = self._ask(EventBatch.of(self.history, asked))
        seen = self._course.seen(number)
        self.model.observe(self.state, self.history, EventBatch.of(self.history, seen))
        return answers
