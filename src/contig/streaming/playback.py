"""The state of a stream as it was at any past time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from contig.history import History
from contig.models.contract import EventBatch, Model
from contig.models.state import NodeState
from contig.streaming.batches import StreamBatches, observe_events, observe_reversibly
from contig.streaming.snapshots import Snapshots, load
from contig.streaming.walker import Walker

IDLE_CURSORS = 2  # kept for the next queries; each holds a whole state
WALKER_PAYS_AFTER = 16  # batches; setting it up takes longer than a few of them


class Cursor:
    """A state that moves forward through the complete batches of a stream."""

    def __init__(self, model: Model, batches: StreamBatches, state: NodeState, number: int = 0) -> None:
        self.model, self.batches, self.state = model, batches, state
        self.number = number  # of batches observed
        self.since: int | None = 0  # the snapshot since which ``changed`` is complete
        self.changed: list[Tensor] = []  # nodes, per batch
        self._walker: Walker | None = None
        self._walked: tuple[History, int] | None = None  # what the walker was made for

    def advance(self, number: int, snapshots: Snapshots | None = None) -> None:
        """Observe complete batches until ``number`` are observed; add snapshots on the way."""
        many = number - self.number > WALKER_PAYS_AFTER
        for ahead, end in enumerate(self.batches.ends(self.number, number), self.number):
            if snapshots is not None:
                self._track(snapshots, end)
            if many:
                self._walk(ahead)
            else:
                observe_events(self.model, self.state, self.batches, end)
            self.state.position, self.number = end, ahead + 1
            if snapshots is not None:
                self._add_to(snapshots)

    @torch.no_grad()
    def _track(self, snapshots: Snapshots, end: int) -> None:
        """Note the nodes that the next batch changes, while this cursor is the one to add a snapshot."""
        if self.since != snapshots.last:
            self.since, self.changed = None, []
            return
        history, events = self.batches.history, self.batches.events(self.state.position, end)
        self.changed.append(self.model.nodes_observed(self.state, history, EventBatch.of(history, events)))

    def _add_to(self, snapshots: Snapshots) -> None:
        with snapshots.lock:
            if self.since == snapshots.last and snapshots.is_due(self.number):
                snapshots.add(self.number, self.state.save_rows(torch.cat(self.changed).unique()))
            if self.number == snapshots.last:
                self.since, self.changed = self.number, []

    @torch.no_grad()
    def _walk(self, number: int) -> None:
        """Observe a batch by a walker, which captures the batches on a GPU."""
        history = self.batches.history
        if self._walker is None or self._walked != (history, history.num_events):
            self._walker = Walker(self.model, self.state, history, self.batches.batch_size)
            self._walker.start(self.batches.positions(np.arange(self.batches.num_events)))
            self._walked = (history, history.num_events)
        self._walker.step(number)


class Playback:
    """The state of a stream as it was at any time, for any number of threads at once.

    The stream is observed in the batches in which it would be scored, always the same ones; the part of a
    batch before the requested time is observed on top and undone after use. So an answer depends on its own
    time alone, not on other requests. Snapshots are kept along the way: ascending times observe each event
    once, and a time before one that was requested earlier costs a small part of the stream.
    """

    def __init__(self, model: Model, batches: StreamBatches) -> None:
        self.model, self.batches = model, batches
        self._snapshots = Snapshots(batches.complete)
        self._idle: list[Cursor] = []
        self._lock = threading.Lock()

    @contextmanager
    def at(self, when: Tensor) -> Iterator[NodeState]:
        """Yield the state that has observed exactly the events strictly before ``when``; only read it."""
        end = int(self.batches.history.events.count_before(when.reshape(1)))
        cursor = self._borrow(end)  # one that fails on the way is not returned
        cursor.advance(self.batches.complete_at(end, cursor.number), self._snapshots)
        saved = observe_reversibly(self.model, cursor.state, self.batches, end)
        try:
            yield cursor.state
        finally:
            cursor.state.restore_rows(saved)
            self._return(cursor)

    def waypoints(self, when: Tensor, batches: int) -> list[Tensor]:
        """Return times on the way to a time, between which that many batches are observed.

        A caller that visits them in order can do something else in between.
        """
        end = int(self.batches.history.events.count_before(when.reshape(1)))
        with self._snapshots.lock:
            known = [(one.changed.position, one.number) for one in self._snapshots.up_to(end)]
        with self._lock:
            known += [(one.state.position, one.number) for one in self._idle if one.state.position <= end]
        _, number = max(known, default=(0, 0))
        numbers = range(number + batches, self.batches.complete_at(end, number), batches)
        t = self.batches.history.events["t"]
        return [t[self.batches.end(one)] for one in numbers]

    def _borrow(self, end: int) -> Cursor:
        """Take the cursor that has the least to observe up to a position, for one thread alone."""
        with self._snapshots.lock:
            chain = self._snapshots.up_to(end)
        start = chain[-1].changed.position if chain else 0
        with self._lock:
            ready = [cursor for cursor in self._idle if start <= cursor.state.position <= end]
            if ready:
                found = max(ready, key=lambda cursor: cursor.number)
                self._idle.remove(found)
                found.state.grow(self.batches.history.num_nodes)
                return found
            cursor = self._idle.pop(0) if len(self._idle) >= IDLE_CURSORS else self._new_cursor()
        cursor.state.grow(self.batches.history.num_nodes)
        load(cursor.state, chain)
        cursor.number = cursor.since = chain[-1].number if chain else 0
        cursor.changed = []
        return cursor

    def _return(self, cursor: Cursor) -> None:
        with self._lock:
            self._idle = [*self._idle, cursor][-IDLE_CURSORS:]

    def _new_cursor(self) -> Cursor:
        history = self.batches.history
        on_host = history.on_host
        state = NodeState(self.model.blank(), history.num_nodes, history.device, on_host=on_host)
        return Cursor(self.model, self.batches, state)
