"""Taking snapshots in the background."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import numpy as np
import torch

from contig.live.graph import LiveGraph
from contig.live.ids import NodeIndex
from contig.live.log import EventLog
from contig.live.settings import Settings
from contig.live.snapshots import SnapshotFolder

log = logging.getLogger("contig")

FIRST_PAUSE, LONGEST_PAUSE = 5.0, 300.0  # seconds after a failure; it doubles with each


class Snapshotter:
    """Saves the state after a number of events or seconds, and drops what the log no longer needs.

    ``batches`` is the number of batches of the log that were applied; the engine sets it while it holds the
    graph's lock for writing. Intervals are measured by a clock that no one can set back.
    """

    def __init__(
        self,
        graph: LiveGraph,
        ids: NodeIndex,
        event_log: EventLog,
        log_lock: threading.Lock,
        folder: SnapshotFolder,
        settings: Settings,
        trained_events: int,
        trained_nodes: int,
    ) -> None:
        self.graph, self.ids, self.log, self.log_lock = graph, ids, event_log, log_lock
        self.folder, self.settings = folder, settings
        self.trained_events, self.trained_nodes = trained_events, trained_nodes
        self.batches = event_log.end.batches
        self.saved_batches: int | None = None
        self.saved_events = 0
        self.saved_at = time.monotonic()
        self.error: str | None = None
        self._pause, self._retry_at = FIRST_PAUSE, 0.0
        self._wake = threading.Event()
        self._stopping = False
        self._taking = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="contig-snapshots", daemon=True)

    def start(self) -> None:
        """Take snapshots from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Finish a snapshot that is being taken, and take no more."""
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def events_arrived(self) -> None:
        """Take a snapshot if enough events have arrived since the last one."""
        if self._live_events - self.saved_events >= self.settings.snapshot_every_events:
            self._wake.set()

    @property
    def _live_events(self) -> int:
        return self.graph.history.num_events - self.trained_events

    def _work(self) -> None:
        due = time.monotonic() + self.settings.snapshot_every_seconds
        while True:
            if self._wake.wait(max(0.0, max(due, self._retry_at) - time.monotonic())):
                self._wake.clear()
                due = time.monotonic()
            if self._stopping:
                return
            with self._taking:
                if time.monotonic() < self._retry_at:
                    continue  # it stays due until the pause is over
                self._take()
            due = time.monotonic() + self.settings.snapshot_every_seconds

    def take(self) -> None:
        """Save a snapshot unless nothing has changed; a failure is logged and reported in the status."""
        with self._taking:
            self._take()

    def _take(self) -> None:
        if self.batches == self.saved_batches:
            return
        try:
            self._save()
            self.error, self._pause, self._retry_at = None, FIRST_PAUSE, 0.0
        except Exception as error:  # the next snapshot may succeed, and closing must go on
            self.error = str(error)
            self._retry_at = time.monotonic() + self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
            log.warning(f"A snapshot could not be saved: {error}")

    def _save(self) -> None:
        with self.graph.lock.reading():
            self.graph.check()
            batches, events, content = self.batches, self._live_events, self._content()
        self.folder.save(batches, content)
        self.saved_batches, self.saved_events, self.saved_at = batches, events, time.monotonic()
        kept = self.folder.prune(self.settings.keep_snapshots)
        self._compact(min((one.batches for one in kept), default=0))

    def _content(self) -> dict[str, Any]:
        """Copy everything that the run does not have."""
        columns, first = self.graph.history.events, self.trained_events
        events = {name: columns[name][first:].cpu().clone() for name in columns.columns if name != "happened"}
        events["t"] = columns.happened[first:].cpu().clone()
        late = np.zeros(columns.count, dtype=bool)
        late[self.graph.batches.late] = True
        events["late"] = torch.from_numpy(late[first:])
        nodes = self.graph.history.num_nodes
        return {
            "events": events,
            "labels": self.ids.labels[self.trained_nodes : nodes],
            "is_dst": self.ids.is_dst[self.trained_nodes : nodes],
            "rows": self.graph.base_rows(),
            "position": self.graph.base_position,
            "complete": self.graph.complete,
        }

    def _compact(self, before: int) -> None:
        """Drop what no kept snapshot needs, a little at a time, so that events need not wait."""
        more = self.settings.retention == "snapshot"
        while more:
            with self.log_lock:
                more = self.log.drop_step(before)
        with self.log_lock:
            self.log.forget_receipts(self.settings.keep_batch_ids)
