"""Taking in events: concurrent callers share a transaction (group commit)."""

from __future__ import annotations

import threading
import time
from collections import deque

from contig.errors import ContigError, RunError
from contig.live.answers import Receipt
from contig.live.events import CheckedEvents
from contig.live.graph import LiveGraph
from contig.live.ids import NodeIndex
from contig.live.log import EventLog
from contig.live.partners import Partners
from contig.live.records import BatchRecord, in_order_runs
from contig.live.settings import Settings
from contig.live.snapshotter import Snapshotter
from contig.live.staging import Staging

RATE_SECONDS = 60.0  # over which the rate of events is measured


class Request:
    """A batch on its way: its receipt or its error, once it was decided."""

    def __init__(self, events: CheckedEvents, batch_id: str | None) -> None:
        self.events, self.batch_id = events, batch_id
        self.receipt: Receipt | None = None
        self.error: BaseException | None = None

    @property
    def decided(self) -> bool:
        return self.receipt is not None or self.error is not None

    def answer(self) -> Receipt:
        """Return the receipt, or raise the error."""
        if self.error is not None:
            raise self.error
        assert self.receipt is not None
        return self.receipt


class Writer:
    """Writes batches to the log and applies them.

    Whoever gets the lock writes everything that is waiting, in one transaction: under load, callers share
    the time that the disk takes.
    """

    def __init__(
        self,
        graph: LiveGraph,
        ids: NodeIndex,
        event_log: EventLog,
        log_lock: threading.Lock,
        settings: Settings,
        snapshots: Snapshotter,
        partners: Partners,
    ) -> None:
        self.graph, self.ids, self.log, self.settings = graph, ids, event_log, settings
        self.snapshots, self.partners = snapshots, partners
        self._turn = threading.Lock()
        self._log_lock = log_lock
        self._waiting: deque[Request] = deque()
        self._commits: deque[tuple[float, int]] = deque()
        self._closed = self._failed = False
        self._started = time.monotonic()

    def observe(self, events: CheckedEvents, batch_id: str | None) -> Receipt:
        """Take in a batch, together with those of other callers."""
        request = Request(events, batch_id)
        self._waiting.append(request)
        with self._turn:
            if not request.decided:
                self._commit(self._take_waiting())
        return request.answer()

    def close(self) -> None:
        """Refuse batches from now on."""
        with self._turn:
            self._closed = True

    def events_per_second(self) -> float:
        """Return the mean rate of the last minute."""
        now = time.monotonic()
        span = min(RATE_SECONDS, max(1.0, now - self._started))
        return sum(events for at, events in list(self._commits) if at >= now - span) / span

    def _take_waiting(self) -> list[Request]:
        group = []
        while self._waiting:
            group.append(self._waiting.popleft())
        return group

    def _commit(self, group: list[Request]) -> None:
        """Decide a group of requests: write it, apply it, and set the receipts."""
        try:
            self.check()
            receipts = self._write_and_apply(group)
        except BaseException as error:
            for request in group:
                request.error = request.error or error
            if not isinstance(error, ContigError):
                raise
            return
        for request, receipt in receipts:
            request.receipt = receipt

    def _write_and_apply(self, group: list[Request]) -> list[tuple[Request, Receipt]]:
        staging = Staging(self.graph, self.ids, self.log, self.settings)
        receipts = []
        with self._log_lock:
            try:
                for request in group:
                    try:
                        receipts.append((request, staging.add(request.events, request.batch_id)))
                    except ContigError as error:
                        request.error = error
                if staging.batches:
                    self.log.append(staging.batches)
            except BaseException:
                staging.discard()
                raise
        records = [batch.record for batch in staging.batches if len(batch.record)]
        if records:
            self._apply(records)
        return receipts

    def _apply(self, records: list[BatchRecord]) -> None:
        self._failed = True
        with self.graph.lock.writing():
            for record in in_order_runs(records, self.graph.clock):
                self.graph.append(record)
                self.partners.add(record.src, record.dst, record.t)
            self.snapshots.batches = self.log.end.batches
        self._failed = False
        now = time.monotonic()
        self._commits.append((now, sum(map(len, records))))
        while self._commits[0][0] < now - RATE_SECONDS:
            self._commits.popleft()
        self.snapshots.events_arrived()

    def check(self) -> None:
        """Raise ``RunError`` if no events can be taken in any more."""
        if self._closed:
            raise RunError("The engine is closed.")
        if self._failed:
            raise RunError("The engine failed while it applied events; open its folder again.")
