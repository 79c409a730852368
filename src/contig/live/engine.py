"""The live engine: a trained model that takes in events durably and answers for any node and time."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from contig.data.clock import TimeLike
from contig.data.ids import Side
from contig.errors import ConfigError, RunError
from contig.files import as_path
from contig.live.answers import Embeddings, FoundNode, LiveTrajectory, PastEvent, Receipt, Status
from contig.live.events import Events, StreamTraits, checked
from contig.live.log import EventLog
from contig.live.partners import Partners
from contig.live.queries import Queries
from contig.live.recovery import Restored, adopt_run, restore
from contig.live.settings import Settings
from contig.live.snapshots import SnapshotFolder
from contig.live.snapshotter import Snapshotter
from contig.live.writer import Writer
from contig.locks import locked
from contig.runs.answers import RecommendationList, Scores
from contig.runs.folder import RunFolder

if TYPE_CHECKING:
    import pyarrow as pa


SURROGATE = frozenset(map(chr, range(0xD800, 0xE000)))  # half of a pair, which has no encoding


class Engine:
    """A trained model, the events since its training, and its state after them.

    Nodes are given by the user's ids; unknown ones become nodes when an event names them. A time is a number
    as in the events, or a date. Any number of threads may call any method. ``observe`` returns when the
    events are on disk; later queries see them.
    """

    def __init__(
        self, folder: Path, settings: Settings, held: ExitStack, log: EventLog, found: Restored
    ) -> None:
        self.folder, self.settings = folder, settings
        self._held, self._log, self._graph, self._traits = held, log, found.graph, found.traits
        self._trained_events = found.trained_events
        self._log_lock = threading.Lock()
        self._snapshots = Snapshotter(
            found.graph,
            found.ids,
            log,
            self._log_lock,
            SnapshotFolder(folder),
            settings,
            found.trained_events,
            found.trained_nodes,
        )
        self._snapshots.saved_batches, self._snapshots.saved_events = (
            found.snapshot_batches,
            found.snapshot_events,
        )
        partners = Partners(found.graph.history)
        self._writer = Writer(
            found.graph, found.ids, log, self._log_lock, settings, self._snapshots, partners
        )
        self._queries = Queries(found.graph, found.ids, partners, found.traits.time, found.traits.date_format)
        self._started = time.monotonic()
        self._closing = threading.Lock()
        self._closed = False

    @classmethod
    def open(
        cls,
        folder: str | Path,
        run: str | Path | None = None,
        settings: Settings | None = None,
        device: str = "auto",
    ) -> Engine:
        """Open a live folder; the first time, ``run`` is the trained run to serve, of which a copy is kept.

        One process at a time uses a folder; another one gets a ``RunError`` that names the first. After a
        crash the state is that of a process that never stopped: the newest good snapshot is loaded and the
        rest of the log is replayed. A damaged log raises ``DamagedLogError``.
        """
        path, chosen = as_path(folder, "folder"), (settings or Settings()).checked()
        source = None if run is None else as_path(run, "run")
        if source is not None and not path.exists():
            RunFolder(source).config()  # refuses what is not a run, before anything is written
        with ExitStack() as held:
            held.enter_context(locked(path))
            event_log = EventLog(path)
            held.callback(event_log.close)
            event_log.open()
            adopt_run(path, source, event_log)
            found = restore(path, event_log, chosen, device)
            engine = cls(path, chosen, held.pop_all(), event_log, found)
        engine._snapshots.take()  # so that the next start does not repeat what this one computed
        engine._snapshots.start()
        return engine

    def close(self, *, snapshot: bool = True) -> None:
        """Finish what was accepted, save a snapshot and release the folder; closing again does nothing.

        Without a ``snapshot`` the next start takes longer.
        """
        with self._closing:
            if self._closed:
                return
            self._closed = True
            try:
                self._writer.close()
                self._snapshots.stop()
                if snapshot:
                    self._snapshots.take()
            finally:
                self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- events ------------------------------------------------------------------------------------------

    def observe(self, events: Events | pa.Table, batch_id: str | None = None) -> Receipt:
        """Take in events; they are on disk, and answers know them, when this returns.

        ``events`` are columns ``src``, ``dst``, ``t`` and ``features``; a batch is sorted by time. Events
        that are too old are rejected one by one (see ``Settings.late``) and the others accepted; invalid
        values raise ``DataError``, and a full disk ``StorageFullError``: then nothing has changed. A batch
        with a ``batch_id`` that was used before changes nothing and gets the first receipt again.
        """
        _check_batch_id(batch_id)
        return self._writer.observe(
            checked(events, self._current_traits(), self.settings.max_batch), batch_id
        )

    def _current_traits(self) -> StreamTraits:
        """Return what new events must have in common with those known by now."""
        with self._graph.lock.reading():
            last = self._graph.clock
        return replace(self._traits, time=self._traits.time.until(last))

    # -- answers -----------------------------------------------------------------------------------------

    def embed(
        self, ids: Sequence[int | str], at: TimeLike | None = None, *, side: Side | None = None
    ) -> Embeddings:
        """Embed nodes at a time, by default just after the last event, from the events strictly before it."""
        return self._ready.embed(ids, at, side)

    def score(self, src: Sequence[int | str], dst: Sequence[int | str], at: TimeLike | None = None) -> Scores:
        """Score pairs of sources and destinations at a time."""
        return self._ready.score(src, dst, at)

    def recommend(
        self,
        id: int | str,
        at: TimeLike | None = None,
        k: int = 10,
        exclude_seen: bool = False,
        *,
        side: Side = "src",
    ) -> RecommendationList:
        """Return the ``k`` destinations that a source is most likely to meet at a time, best first.

        ``exclude_seen`` leaves out those it has met; ``side="dst"`` recommends sources to a destination. A
        node without events before that time gets the most popular candidates (``cold_start``).
        """
        return self._ready.recommend(id, at, k, exclude_seen, side)

    def trajectory(
        self, id: int | str, start: TimeLike, end: TimeLike, steps: int, *, side: Side | None = None
    ) -> LiveTrajectory:
        """Embed a node at ``steps`` equally spaced times from ``start`` to ``end``."""
        return self._ready.trajectory(id, start, end, steps, side)

    def recent_events(self, id: int | str, k: int = 20, *, side: Side | None = None) -> list[PastEvent]:
        """Return the last ``k`` events of a node, newest first."""
        return self._ready.recent_events(id, k, side)

    def find(self, prefix: str, limit: int = 20) -> list[FoundNode]:
        """Return nodes whose ids start with a prefix, in order of their ids."""
        return self._ready.find(prefix, limit)

    def date_of(self, t: float | None) -> str | None:
        """Return a time as a date such as ``2024-05-01T12:00:00Z``; None if the times are not dates."""
        return None if t is None else self._queries.span.iso(t)

    def check(self) -> None:
        """Raise ``RunError`` if the engine cannot answer: it was closed, or failed to apply events."""
        if self._closed:
            raise RunError(f"The engine of {self.folder} is closed.")
        self._writer.check()
        self._graph.check()

    def status(self) -> Status:
        """Return the size and the health of the engine."""
        graph, snapshots = self._graph, self._snapshots
        with graph.lock.reading():
            t = graph.history.events["t"]
            events, nodes, first, last = len(t), graph.history.num_nodes, t[0].item(), t[-1].item()
        now = time.monotonic()
        return Status(
            model=graph.model.name,
            events=events,
            live_events=events - self._trained_events,
            late_events=len(graph.batches.late),
            nodes=nodes,
            first_time=first,
            last_time=last,
            log_bytes=self._log.nbytes(),
            snapshot_events=snapshots.saved_events,
            snapshot_age_s=None if snapshots.saved_batches is None else now - snapshots.saved_at,
            snapshot_error=snapshots.error,
            uptime_s=now - self._started,
            events_per_second=self._writer.events_per_second(),
            read_as=self._traits.reading.as_dict(),
        )

    @property
    def _ready(self) -> Queries:
        if self._closed:
            raise RunError(f"The engine of {self.folder} is closed.")
        return self._queries


def _check_batch_id(given: str | None) -> None:
    """Raise ``ConfigError`` for what the log cannot store."""
    if given is not None and not (isinstance(given, str) and given and SURROGATE.isdisjoint(given)):
        raise ConfigError(f"batch_id={given!r:.100}: pass text that is not empty and can be encoded.")
