"""The state of a stream as it was at any past time."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from contig.history import History
from contig.models.contract import EventBatch, Model
from contig.models.state import NodeState
from contig.streaming.walker import Walker


class Playback:
    """The state of a whole stream as it was at one time after another.

    The stream is observed in the batches in which it would be scored, always the same ones; the part of a
    batch before the requested time is observed on a copy. So an answer depends on its own time
    alone, not on earlier requests. Ascending times are cheap; an earlier one starts from the beginning.
    """

    def __init__(self, model: Model, history: History, num_nodes: int, batch_size: int) -> None:
        self.model, self.history = model, history
        self.state = NodeState(model.blank(), num_nodes, history.device, on_host=history.on_host)
        self._walker = Walker(model, self.state, history, batch_size)
        self._walker.start(np.arange(history.num_events))
        self._next = 0

    @property
    def batch_times(self) -> Tensor:
        """The time of the first event of each batch; the state of that time needs no copy."""
        starts = torch.tensor([step.start for step in self._walker.steps], device=self.history.device)
        return self.history.events["t"][starts]

    @torch.no_grad()
    def at(self, when: Tensor) -> NodeState:
        """Return the state that has observed exactly the events strictly before ``when``.

        Read it, and only until the next call.
        """
        end = int(self.history.events.count_before(when.reshape(1)))
        if end < self.state.position:
            self.state.reset()
            self._next = 0
        steps = self._walker.steps
        while self._next < len(steps) and steps[self._next].observe_to <= end:
            self._walker.step(self._next)
            self._next += 1
        if self.state.position >= end:
            return self.state
        tip = self.state.clone()
        events = torch.arange(tip.position, end, device=self.history.device)
        self.model.observe(tip, self.history, EventBatch.of(self.history, events))
        tip.position = end
        return tip
