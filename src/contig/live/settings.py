"""How a live engine treats late events, its log and its snapshots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from contig.options import as_dict, option, set_options
from contig.tasks.recommend import AsOf

Late = Literal["reject", "accept"]
Retention = Literal["all", "snapshot"]


@dataclass(frozen=True)
class Settings:
    """Settings of a live engine; they may differ each time it is opened."""

    late: Late = option(
        "reject",
        "events older than the last event of one of their nodes: reject, or accept (they become part of the "
        "history, at their own times, and change no state)",
    )
    as_of: AsOf = option(
        "event",
        "when states are read: event (at the time of the query), or batch (at the start of the current "
        "batch, as evaluation does)",
    )
    snapshot_every_events: int = option(100_000, "events after which a snapshot is taken", low=1)
    snapshot_every_seconds: float = option(300.0, "seconds after which a snapshot is taken", above=0)
    keep_snapshots: int = option(2, "snapshots to keep", low=1)
    retention: Retention = option(
        "all", "batches to keep in the log: all, or snapshot (those that a kept snapshot does not contain)"
    )
    keep_batch_ids: int = option(
        1_000_000, "latest batch ids to remember; a retry of an older batch is taken for a new one", low=1
    )
    max_batch: int = option(100_000, "largest number of events in one call", low=1)

    @classmethod
    def of(cls, **given: Any) -> Settings:
        """Return settings from values or text; raise ``ConfigError`` for those that are not allowed."""
        return set_options(cls(), given)

    def checked(self) -> Settings:
        """Return the same settings; raise ``ConfigError`` if a value is not allowed."""
        return set_options(Settings(), as_dict(self))
