"""The batches in which a growing stream is observed, counted from its first event.

They are those of ``schedule`` for the whole stream: a batch is complete once its successor has begun, and has
then observed everything strictly before the successor's first event. Events appended later never change a
complete batch.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contig.errors import RunError
from contig.history import History
from contig.models.contract import EventBatch, Model
from contig.models.state import NodeState, SavedRows
from contig.streaming.schedule import check_batch_size

Ints = NDArray[np.int64]


class StreamBatches:
    """The complete batches of a history, by number.

    ``late`` are positions of events that came too late to be observed: they are part of the history, but
    of no batch.
    """

    def __init__(self, history: History, batch_size: int, late: Ints | None = None) -> None:
        check_batch_size(batch_size)
        self.history, self.batch_size = history, batch_size
        self.late: Ints = np.empty(0, np.int64)
        self.add_late(self.late if late is None else late)

    def add_late(self, positions: Ints) -> None:
        """Leave further events, which were just appended, out of the batches."""
        self.late = np.concatenate([self.late, positions])
        self._late_places = self.late - np.arange(len(self.late))  # the batched event that follows each one

    @property
    def num_events(self) -> int:
        """The number of events in batches."""
        return self.history.num_events - len(self.late)

    @property
    def complete(self) -> int:
        """The number of complete batches."""
        return max(0, (self.num_events - 1) // self.batch_size)

    def positions(self, events: Ints) -> Ints:
        """Return the positions in the history of events that are counted without the late ones."""
        return events + np.searchsorted(self._late_places, events, side="right")

    def ends(self, first: int, stop: int) -> list[int]:
        """Return, for batches ``[first, stop)``, the position up to which each has observed the history."""
        t = self.history.events["t"]
        successors = torch.from_numpy(self.positions(np.arange(first + 1, stop + 1) * self.batch_size))
        ends: list[int] = torch.searchsorted(t, t[successors.to(t.device)]).tolist()
        return ends

    def end(self, number: int) -> int:
        """Return the position up to which the first ``number`` batches have observed the history."""
        return self.ends(number - 1, number)[0] if number else 0

    def complete_at(self, end: int, known: int = 0) -> int:
        """Return how many batches are complete and within the first ``end`` positions; at least ``known``."""
        within = end - int(np.searchsorted(self.late, end))
        most = min(self.complete, within // self.batch_size + 1)
        return known + sum(stop <= end for stop in self.ends(known, max(known, most)))

    def events(self, start: int, stop: int) -> Tensor:
        """Return the positions ``[start, stop)`` without late events, on the history's device."""
        late = self.late[np.searchsorted(self.late, start) : np.searchsorted(self.late, stop)]
        if not len(late):
            return torch.arange(start, stop, device=self.history.device)
        return torch.from_numpy(np.setdiff1d(np.arange(start, stop), late)).to(self.history.device)

    @property
    def start_times(self) -> Tensor:
        """The time of the first event of each batch, the last one included."""
        first = self.positions(np.arange(0, self.num_events, self.batch_size))
        return self.history.events["t"][torch.from_numpy(first).to(self.history.device)]


def append_events(
    batches: StreamBatches,
    src: Tensor,
    dst: Tensor,
    t: Tensor,
    features: Tensor | None = None,
    late: Tensor | None = None,
) -> None:
    """Add events to the history of some batches, in the order of their arrival.

    ``t`` are their own times. An event may arrive after later ones: the clock of the stream, the latest time
    so far, is then the time at which states observe it. One that happened before another event of its own
    nodes must be marked as ``late``, which any other may be: then no state observes it. Neighbors and counts
    see every event at its own time. What counts pairs must have been built before the first late event
    (``warm_up``).
    """
    history = batches.history
    if history.on_host:
        if late is not None:
            raise RunError("Late events cannot be added to a graph in pinned host memory; use the CPU.")
        batches.history = history.extended(src, dst, t, features)
        return
    last = history.events["t"][-1:]
    clock = torch.cummax(torch.cat([last, t]), 0).values[len(last) :]
    happened = None if late is None and bool((clock == t).all()) else t
    first = history.num_events
    history.append(src, dst, clock, features, happened=happened, late=late)
    if late is not None:
        batches.add_late(first + torch.nonzero(late).squeeze(1).cpu().numpy())


@torch.no_grad()
def warm_up(model: Model, history: History) -> None:
    """Answer once, so that whatever is built at the first query is there.

    Evidence must be: it is built from sequences without late events, which are inserted later.
    """
    if not history.num_events:
        return
    state = model.new_state(history.num_nodes)
    src, dst, last = (history.events[name][-1:] for name in ("src", "dst", "t"))
    model.rank(state, history, src, dst.unsqueeze(1), last, last[0])
    if model.learns:  # a heuristic has no embeddings
        model.embed(state, history, src, last, last[0])


@torch.no_grad()
def observe_events(model: Model, state: NodeState, batches: StreamBatches, end: int) -> None:
    """Observe everything up to a position as one batch."""
    events = batches.events(state.position, end)
    if len(events):
        model.observe(state, batches.history, EventBatch.of(batches.history, events))
    state.position = end


@torch.no_grad()
def observe_reversibly(model: Model, state: NodeState, batches: StreamBatches, end: int) -> SavedRows:
    """Observe everything up to a position as one batch, and return the rows that undo it.

    If observing fails, the state is as it was before.
    """
    events = EventBatch.of(batches.history, batches.events(state.position, end))
    saved = state.save_rows(model.nodes_observed(state, batches.history, events))
    try:
        observe_events(model, state, batches, end)
    except BaseException:
        state.restore_rows(saved)
        raise
    return saved
