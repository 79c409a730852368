"""The history and the node state of a live engine: many readers, one writer.

The state is that of the whole stream, observed in batches of the run's size that are counted from its first
event, as evaluation observes them (``contig.streaming.batches``). ``state`` has observed the complete ones.
The events after them are observed on top when a query needs them, and undone before the next events.

Events may arrive after later events of other nodes. The clock of the stream, the latest time so far, is then
the time at which states observe them; neighbors and counts see them at their own times.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contig.data.columns import Array
from contig.errors import RunError
from contig.history import History
from contig.live.recent import RecentBatches
from contig.live.records import BatchRecord
from contig.models import Model, NodeState
from contig.models.state import RowCache, SavedRows
from contig.streaming.batches import StreamBatches, append_events, observe_reversibly
from contig.streaming.playback import Cursor, Playback
from contig.streaming.sharing import ReadWriteLock
from contig.tasks.recommend import AsOf

APPROACHED_AT_ONCE = 8  # batches


class View(NamedTuple):
    """What a query at a time reads: a state and its reference time; and the number of events before it."""

    state: NodeState
    at: Tensor
    as_of: Tensor
    events: int


class ReadPoint(NamedTuple):
    """The state that a query at a time needs: after this many events, and its reference time."""

    at: Tensor
    events: int
    as_of: Tensor


class LiveGraph:
    """A model's history and state as events arrive."""

    def __init__(
        self,
        model: Model,
        history: History,
        batch_size: int,
        as_of: AsOf,
        *,
        state: NodeState | None = None,
        complete: int = 0,
        late: NDArray[np.int64] | None = None,
    ) -> None:
        self.model, self.history, self.as_of = model, history, as_of
        self.batches = StreamBatches(history, batch_size, late)
        self.past = Playback(model, self.batches)
        self.lock = ReadWriteLock()
        self.state = model.new_state(history.num_nodes) if state is None else state
        self.state.grow(history.num_nodes)
        self.complete = complete  # batches that ``state`` has observed
        self._tip: SavedRows | None = None  # undoes what was observed beyond them
        self._updates = RowCache()
        self._recent = RecentBatches(model, self.batches)
        self._failed = False

    # -- reading -----------------------------------------------------------------------------------------

    @contextmanager
    def view(self, time: Tensor | None, *, with_state: bool = True) -> Iterator[View]:
        """Keep everything as it is while the caller reads, and yield the state for a time.

        None means just after the last event. Without ``with_state`` the caller reads the history alone, and
        any state will do.
        """
        with self.lock.reading():
            point = self._read_point(time)
            if not with_state or point.events == self.state.position:
                yield self._view(self.state, point)
                return
        if point.events >= self._base:
            with self.lock.reading_after(lambda: self._move_tip(time)):
                point = self._read_point(time)
                if point.events == self.state.position:
                    yield self._view(self.state, point)
                    return
        with self._past_view(point.at) as view:
            yield view

    @contextmanager
    def _past_view(self, at: Tensor) -> Iterator[View]:
        """Yield a state before the complete batches."""
        with self.lock.reading():
            point = self._read_point(at)
            recent = self._recent.reaches(point.events)
        if recent:
            with self.lock.writing():
                if self._recent.reaches(point.events):
                    self._undo_tip()
                    with self._recent.rewound(self.state, point.events):
                        yield self._view(self.state, point)
                    return
        self._approach(point)
        with self.lock.reading(), self.past.at(self._time_after(point.events)) as state:
            yield self._view(state, self._read_point(at))

    def _approach(self, point: ReadPoint) -> None:
        """Walk to a time far back a few batches at a time, so that events need not wait for all of it."""
        with self.lock.reading():
            waypoints = self.past.waypoints(self._time_after(point.events), APPROACHED_AT_ONCE)
        for time in waypoints:
            with self.lock.reading(), self.past.at(time):
                pass

    def _view(self, state: NodeState, point: ReadPoint) -> View:
        return View(state, point.at, point.as_of, self.events_before(point.at))

    def events_before(self, at: Tensor) -> int:
        """Return how many events the clock puts strictly before a time."""
        return int(self.history.events.count_before(at.reshape(1)))

    @property
    def clock(self) -> int | float:
        """The latest time of an event so far."""
        last: int | float = self.history.events["t"][-1].item()
        return last

    def now(self) -> Tensor:
        """Return a time just after the last event."""
        last = self.history.events["t"][-1]
        return torch.nextafter(last, last.new_tensor(torch.inf)) if last.is_floating_point() else last + 1

    @property
    def _base(self) -> int:
        return self.state.position if self._tip is None else self._tip.position

    def _read_point(self, time: Tensor | None) -> ReadPoint:
        """Return the state to read at a time, as evaluation would for an event of that time."""
        self.check()
        at = self.now() if time is None else time
        count, t = self.batches.num_events, self.history.events["t"]
        starts_batch = count % self.batches.batch_size == 0 and bool(at >= t[-1])
        if self.as_of == "event" or starts_batch:
            return ReadPoint(at, self.events_before(at), at)
        begun = self._batch_start(self.complete)
        if bool(at >= begun):
            return ReadPoint(at, self._base, begun)
        starts = self.batches.start_times
        number = int(torch.searchsorted(starts, at.to(starts.dtype).reshape(1), right=True)) - 1
        begun = starts[max(0, number)]
        return ReadPoint(at, self.events_before(begun), begun)

    def _batch_start(self, number: int) -> Tensor:
        """Return the time of the first event of a batch."""
        event = int(self.batches.positions(np.array([number * self.batches.batch_size]))[0])
        return self.history.events["t"][event]

    def _time_after(self, events: int) -> Tensor:
        """Return a time that has exactly this many events before it, which are not all."""
        return self.history.events["t"][events]

    def _move_tip(self, time: Tensor | None) -> None:
        """Observe the events that a query at a time needs on top of the complete batches."""
        events = self._read_point(time).events
        if self.state.position == events or events < self._base:
            return
        with self._all_or_nothing():
            self._undo_tip()
            if events > self.state.position:
                self.state.updates = self._updates
                self._tip = observe_reversibly(self.model, self.state, self.batches, events)
                # Complete batches are observed without it: a row computed apart may differ in its last bit.
                self.state.updates = None

    def _undo_tip(self) -> None:
        if self._tip is not None:
            self.state.restore_rows(self._tip)
            self._tip = None

    # -- writing -----------------------------------------------------------------------------------------

    def append(self, record: BatchRecord) -> None:
        """Add events and observe the batches that they complete; the caller holds the lock for writing."""
        with self._all_or_nothing():
            self._undo_tip()
            self._append_events(record)
            self.state.grow(self.history.num_nodes)
            self._observe_complete()

    def load_events(self, record: BatchRecord) -> None:
        """Add events that the state of a snapshot knows, as far as it has observed them."""
        self._append_events(record)
        self.state.grow(self.history.num_nodes)

    def catch_up(self) -> None:
        """Observe all complete batches."""
        with self._all_or_nothing():
            cursor = Cursor(self.model, self.batches, self.state, self.complete)
            cursor.advance(self.batches.complete)
            self.complete = cursor.number

    def _append_events(self, record: BatchRecord) -> None:
        last = self.history.events["t"][-1].item()
        append_events(
            self.batches,
            self._column(record.src),
            self._column(record.dst),
            self._column(record.t),
            None if record.features is None else self._column(record.features),
            self._column(record.late) if record.late.any() else None,
        )
        if not record.is_in_order(last):
            self._updates.clear()  # they may depend on what the events insert into the past

    def _observe_complete(self) -> None:
        number = self.batches.complete
        for end in self.batches.ends(self.complete, number):
            self._recent.observe(self.state, end)
        if number > self.complete:
            self._updates.clear()
        self.complete = number

    def _column(self, array: Array) -> Tensor:
        return torch.from_numpy(np.array(array)).to(self.history.device)

    # -- saving ------------------------------------------------------------------------------------------

    def base_rows(self) -> dict[str, Tensor]:
        """Return a copy of the state after the complete batches; call it while holding the lock."""
        rows = {name: rows.to("cpu", copy=True) for name, rows in self.state.rows.items()}
        if self._tip is not None:
            for name, saved in self._tip.rows.items():
                rows[name][self._tip.nodes.cpu()] = saved.cpu()
        return rows

    @property
    def base_position(self) -> int:
        """The number of events that the complete batches have observed."""
        return self._base

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        self.check()
        self._failed = True
        yield
        self._failed = False

    def check(self) -> None:
        """Raise ``RunError`` if a change was cut short: what is in memory is then not to be used or saved."""
        if self._failed:
            raise RunError("The engine failed while it applied events; open its folder again.")
