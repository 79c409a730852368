"""Walking a state forward over events, without scoring them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from contig.history import History
from contig.models.contract import EventBatch, Model
from contig.models.state import NodeState
from contig.streaming.capture import Captured
from contig.streaming.schedule import Course, schedule


def replay(
    model: Model,
    state: NodeState,
    history: History,
    events: NDArray[np.int64],
    batch_size: int,
    progress: Callable[[int], None] = lambda _: None,
) -> None:
    """Observe ``events`` (ascending positions) in the batches in which they would be scored."""

    course = Course(len(events), batch_size, history.device)
    course.lay(events, history)

    def observe(number: int | torch.Tensor) -> torch.Tensor:
        seen = course.seen(number)
        model.observe(state, history, EventBatch.of(history, seen))
        return seen

    step_over = Captured(observe, observe, history.device, fixed_shapes=model.fixed_shapes)
    model.eval()
    for number, step in enumerate(course.steps):
        step_over(number, regular=course.regular(number))
        progress(step.see - step.seen)
    if len(events):
        state.position = int(events[-1]) + 1


class Playback:
    """The state of a whole stream as it was at one time after another.

    The stream is observed in the batches in which it would be scored, always the same ones; what of a
    batch lies before the asked time is observed on a copy. So an answer depends on its own time alone,
    not on the times asked before. Ascending times are cheap; an earlier one begins at the start again.
    """

    def __init__(self, model: Model, history: History, num_nodes: int, batch_size: int) -> None:
        self.model, self.history = model, history
        self.state = NodeState(model.blank(), num_nodes, history.device, on_host=history.on_host)
        self._steps = schedule(history.events["t"].cpu().numpy(), batch_size)
        self._next = 0

    def at(self, when: torch.Tensor) -> NodeState:
        """The state that has observed exactly the events strictly before ``when``.

        It is to be read, and only until the next call.
        """
        end = int(self.history.events.count_before(when.reshape(1)))
        if end < self.state.position:
            self.state.reset()
            self._next = 0
        while self._next < len(self._steps) and self._steps[self._next].see <= end:
            self._observe(self.state, self._steps[self._next].see)
            self._next += 1
        if self.state.position >= end:
            return self.state
        tip = self.state.clone()
        self._observe(tip, end)
        return tip

    def _observe(self, state: NodeState, end: int) -> None:
        events = torch.arange(state.position, end, device=self.history.device)
        self.model.observe(state, self.history, EventBatch.of(self.history, events))
        state.position = end
