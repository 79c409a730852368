"""The state of a model after a stream that grows at its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contig.errors import DataError, RunError
from contig.history import History
from contig.models.contract import Model
from contig.models.state import NodeState, SavedRows
from contig.streaming.batches import StreamBatches, append_events, observe_reversibly, warm_up
from contig.streaming.playback import Cursor, Playback
from contig.streaming.sharing import ReadWriteLock
from contig.streaming.walker import Progress, Walker, no_progress


@torch.no_grad()
def replay_stream(
    model: Model,
    state: NodeState,
    history: History,
    batch_size: int,
    progress: Progress = no_progress,
    *,
    late: NDArray[np.int64] | None = None,
) -> SavedRows:
    """Observe a whole history from a blank state, and return the ``tip`` of an ``OnlineState``.

    Events at the positions ``late`` are left out.
    """
    model.eval()
    batches = StreamBatches(history, batch_size, late)
    walker = Walker(model, state, history, batch_size)
    walker.start(batches.positions(np.arange(batches.num_events)))
    for number in range(batches.complete):
        walker.step(number)
        progress(batch_size)
    state.position = batches.end(batches.complete)
    tip = observe_reversibly(model, state, batches, history.num_events)
    progress(batches.num_events - batches.complete * batch_size)
    return tip


class OnlineState:
    """A model's history and node state, kept up to date as events arrive, for many readers and one writer.

    ``observe`` costs what the new events touch, however long the stream is: the history, the evidence and
    the state grow in amortized constant time per event. The result does not depend on how the events are
    divided into calls: the state is that of the whole stream, observed in batches of ``batch_size`` that are
    counted from its first event. To that end the events after the last complete batch are observed on top of
    it, and undone when more arrive (``tip`` are the rows that undo them).

    Everything is in node numbers; a node is known once an event names it or ``grow`` was called, and numbers
    need not be consecutive. Events come in time order, but for those that are marked as late: they become
    part of the history, and no state observes them.

    Read inside ``reading``: there, ``history`` and ``state`` are those before or after a call of ``observe``,
    never in between, and a waiting writer goes before new readers. ``at`` gives the state of any time, past
    times from snapshots that are made as they are needed; any number of threads may use it. Keep reads short
    where events arrive all the time: a writer waits for them.

    If ``observe`` refuses events, nothing has changed. If it fails in the middle (out of memory,
    interrupted), every later call raises ``RunError``; build a new object from the events.

    ``state`` has observed all of ``history``; both belong to this object from now on. Pass the ``tip`` where
    it was saved; otherwise the first call of ``observe`` replays the whole stream. ``late`` are the positions
    of events in the history that no state has observed. Objects that replace each other may share a ``lock``.
    """

    def __init__(
        self,
        model: Model,
        history: History,
        state: NodeState,
        batch_size: int,
        *,
        tip: SavedRows | None = None,
        late: NDArray[np.int64] | None = None,
        lock: ReadWriteLock | None = None,
    ) -> None:
        self.model, self._state = model, state
        self.batches = StreamBatches(history, batch_size, late)
        self.past = Playback(model, self.batches)
        self._tip = tip
        self._complete: int | None = None  # batches before the tip, once they were counted
        self._lock = lock or ReadWriteLock()
        self._failed = False

    # -- reading -----------------------------------------------------------------------------------------

    @property
    def history(self) -> History:
        """All events so far."""
        return self.batches.history

    @property
    def state(self) -> NodeState:
        """The state after all events."""
        return self._state

    @property
    def tip(self) -> SavedRows | None:
        """The rows that undo the events after the last complete batch, to save with the state."""
        return self._tip

    @property
    def late(self) -> NDArray[np.int64]:
        """The positions of the events that no state has observed."""
        return self.batches.late

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Keep everything as it is while the caller reads; a thread may nest this."""
        with self._lock.reading():
            self._check()
            yield

    @contextmanager
    def at(self, time: Tensor) -> Iterator[NodeState]:
        """Yield the state that has observed exactly the events strictly before a time; only read it."""
        with self.reading():
            t = self.history.events["t"]
            if not len(t) or bool(time > t[-1]):
                yield self._state
            else:
                with self.past.at(time) as state:
                    yield state

    # -- writing -----------------------------------------------------------------------------------------

    def writing(self) -> AbstractContextManager[None]:
        """Keep readers and other writers out while the caller changes more than this object."""
        return self._lock.writing()

    def observe(
        self,
        src: Tensor,
        dst: Tensor,
        t: Tensor,
        features: Tensor | None = None,
        late: Tensor | None = None,
    ) -> None:
        """Append events in time order and advance the state over them; ``late`` marks those left out of it.

        Columns are ``[events]`` on the history's device, features ``[events, width]``. Raises ``DataError``
        for events that the history refuses.
        """
        with self.writing():
            self._check()
            if late is None:
                self._check_order(t)
            elif not len(self.late):
                warm_up(self.model, self.history)
            append_events(self.batches, src, dst, t, features, late)
            with self._all_or_nothing():
                self._advance()

    def _check_order(self, t: Tensor) -> None:
        if bool((torch.cat([self.history.events["t"][-1:], t]).diff() < 0).any()):
            raise DataError("observe: times decrease; mark events that came too late.")

    def grow(self, num_nodes: int) -> None:
        """Make space for nodes ``0..num_nodes``; new ones have no events."""
        with self.writing():
            self.history.grow(num_nodes)
            self._state.grow(num_nodes)

    def _advance(self) -> None:
        """Observe what the history has more than the state."""
        cursor = Cursor(self.model, self.batches, self._state, self._undo_tip())
        self._state.grow(self.history.num_nodes)
        cursor.advance(self.batches.complete)
        self._complete = cursor.number
        self._tip = observe_reversibly(self.model, self._state, self.batches, self.history.num_events)

    def _undo_tip(self) -> int:
        """Return to the last complete batch, and return its number; to the beginning if it is not known."""
        if self._tip is not None:
            number = self._complete
            if number is None:
                number = self.batches.complete_at(self._tip.position)
            if self.batches.end(number) == self._tip.position:
                self._state.restore_rows(self._tip)
                return number
        self._state.reset()
        return 0

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        self._failed = True
        yield
        self._failed = False

    def _check(self) -> None:
        if self._failed:
            raise RunError(
                "Observing events failed half-way, and the state cannot be used any more; open the run again."
            )
