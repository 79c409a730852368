"""The states of the last batches, as the rows that undo them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from contig.models import Model, NodeState
from contig.models.contract import EventBatch
from contig.models.state import SavedRows
from contig.streaming.batches import StreamBatches, observe_events, observe_reversibly

MAX_BYTES = 2**26


class RecentBatches:
    """Observes complete batches and remembers how to undo the last of them, in bounded memory."""

    def __init__(self, model: Model, batches: StreamBatches, max_bytes: int = MAX_BYTES) -> None:
        self.model, self.batches, self.max_bytes = model, batches, max_bytes
        self._undo: deque[SavedRows] = deque()
        self._bytes = 0

    @property
    def nbytes(self) -> int:
        """The size of the rows that are kept."""
        return self._bytes

    @torch.no_grad()
    def observe(self, state: NodeState, end: int) -> None:
        """Observe everything up to a position as one batch."""
        history = self.batches.history
        batch = EventBatch.of(history, self.batches.events(state.position, end))
        if len(batch.event):
            saved = state.save_rows(torch.unique(self.model.nodes_observed(state, history, batch)))
            self._undo.append(saved)
            self._bytes += saved.nbytes()
            while self._bytes > self.max_bytes:
                self._bytes -= self._undo.popleft().nbytes()
        observe_events(self.model, state, self.batches, end)

    def reaches(self, events: int) -> bool:
        """Return whether the state after this many events can be restored."""
        return bool(self._undo) and self._undo[0].position <= events

    @contextmanager
    def rewound(self, state: NodeState, events: int) -> Iterator[None]:
        """Turn a state after complete batches into that after this many events, for a while."""
        redo: list[SavedRows] = []
        try:
            for saved in reversed(self._undo):
                if state.position <= events:
                    break
                redo.append(state.save_rows(saved.nodes))
                state.restore_rows(saved)
            redo.append(observe_reversibly(self.model, state, self.batches, events))
            yield
        finally:
            for saved in reversed(redo):
                state.restore_rows(saved)
