"""The event log: accepted batches in an SQLite database, on disk before they are acknowledged.

The database is in WAL mode with full synchronization, so a committed transaction survives a crash and a power
cut. Each batch has a checksum, and batches are numbered without gaps. A truncated WAL looks to SQLite as if
its last transactions had never happened; the small file next to the database therefore records how far the
log has got. It is written after a commit and not synchronized: it may be behind, never ahead.
"""

from __future__ import annotations

import json
import sqlite3
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

from contig.errors import DamagedLogError, DiskError, StorageFullError
from contig.files import disk_errors
from contig.live.answers import Receipt, Rejection
from contig.live.records import BatchRecord

FILE, END_FILE = "log.sqlite", "log.end"
SCHEMA = 1
END = struct.Struct("<qqI")  # batches, events, checksum
DROPPED_AT_ONCE = 500  # batches per transaction of a compaction

TABLES = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE batches (
    number INTEGER PRIMARY KEY, first_event INTEGER NOT NULL, events INTEGER NOT NULL,
    record BLOB NOT NULL, checksum INTEGER NOT NULL
);
CREATE TABLE receipts (
    batch_id TEXT PRIMARY KEY, place INTEGER NOT NULL, digest INTEGER NOT NULL, receipt TEXT NOT NULL,
    checksum INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX receipts_by_place ON receipts (place);
"""


class LogEnd(NamedTuple):
    """How many batches and events a log has had, including those that were dropped."""

    batches: int
    events: int


class StoredReceipt(NamedTuple):
    """The receipt of a batch id, and a checksum of the events that were sent with it."""

    digest: int
    receipt: Receipt


@dataclass(frozen=True, eq=False)
class NewBatch:
    """A batch to append: its events, if any were accepted, and the receipt to remember."""

    record: BatchRecord
    receipt: Receipt
    batch_id: str | None
    digest: int


class EventLog:
    """The log of one live folder; one thread at a time uses it."""

    def __init__(self, folder: Path) -> None:
        self.path, self._end_path = folder / FILE, folder / END_FILE
        self._db: sqlite3.Connection | None = None
        self._end_file: IO[bytes] | None = None
        self.end = LogEnd(0, 0)
        self._receipts = 0  # places given so far

    # -- opening -----------------------------------------------------------------------------------------

    def open(self) -> None:
        """Open the log, or create it; raise ``DamagedLogError`` if it is not as it was written."""
        new = not self.path.exists()
        if new and self._end_path.exists() and self._recorded_end().batches:
            raise self._damaged(f"{FILE} is missing")
        with disk_errors(self._end_path):
            self._end_path.touch()
            self._end_file = self._end_path.open("r+b", buffering=0)
        with self._reporting():
            self._db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
            self._run("PRAGMA synchronous = FULL")
            if new or not self._tables():
                self._create()
        self._check()

    def _tables(self) -> set[str]:
        return {name for (name,) in self._run("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def _create(self) -> None:
        self._run("PRAGMA auto_vacuum = INCREMENTAL")
        self._run("PRAGMA journal_mode = WAL")
        with self._transaction():
            for statement in filter(str.strip, TABLES.split(";")):
                self._run(statement)
            self._run("INSERT INTO facts VALUES ('schema', ?)", str(SCHEMA))

    def _check(self) -> None:
        """Raise unless the database is whole and has everything that was acknowledged."""
        with self._reporting():
            problem = self._run("PRAGMA quick_check(1)").fetchone()[0]
            if problem != "ok":
                raise self._damaged(problem)
            if self.fact("schema") != str(SCHEMA):
                raise self._damaged(f"it has the schema {self.fact('schema')!r}, not {SCHEMA}")
            self.end = self._checked_end()
            self._receipts = self._checked_receipts()
        recorded = self._recorded_end()
        if recorded.batches > self.end.batches:
            lost = recorded.batches - self.end.batches
            raise self._damaged(f"it ends {lost:,} batches before the last one that was acknowledged")

    def _checked_end(self) -> LogEnd:
        """Check the order and the checksums of all batches, and return where they end."""
        end = LogEnd(self.first_batch, int(self.fact("dropped_events") or 0))
        rows = self._run("SELECT * FROM batches ORDER BY number")
        for number, first_event, events, record, checksum in rows:
            if (number, first_event) != end:
                raise self._damaged(f"batch {end.batches:,} is missing")
            if _checksum(number, first_event, events, record) != checksum:
                raise self._damaged(f"batch {number:,} does not match its checksum")
            end = LogEnd(number + 1, first_event + events)
        return end

    def _checked_receipts(self) -> int:
        """Check the receipts of batch ids, and return the place of the last one."""
        count = first = last = 0
        for batch_id, place, digest, receipt, checksum in self._run("SELECT * FROM receipts ORDER BY place"):
            if _checksum(batch_id, place, digest, receipt) != checksum:
                raise self._damaged(f"the receipt of batch {batch_id!r} does not match its checksum")
            count, first, last = count + 1, first or place, place
        if count and count != last - first + 1:
            raise self._damaged("receipts are missing")
        return last

    def close(self) -> None:
        """Close the log; a closed one cannot be used again."""
        if self._db is not None:
            with suppress(sqlite3.Error):
                self._run("PRAGMA wal_checkpoint(TRUNCATE)")
            self._db.close()
            self._db = None
        if self._end_file is not None:
            self._end_file.close()
            self._end_file = None

    # -- facts -------------------------------------------------------------------------------------------

    def fact(self, name: str) -> str | None:
        """Return a value that was stored with the log."""
        with self._reporting():
            row = self._run("SELECT value FROM facts WHERE name = ?", name).fetchone()
        return None if row is None else str(row[0])

    def set_fact(self, name: str, value: str) -> None:
        """Store a value with the log."""
        with self._reporting(), self._transaction():
            self._set_fact(name, value)

    def _set_fact(self, name: str, value: str) -> None:
        self._run("INSERT OR REPLACE INTO facts VALUES (?, ?)", name, value)

    @property
    def first_batch(self) -> int:
        """The number of the first batch that was not dropped."""
        return int(self.fact("dropped_batches") or 0)

    def nbytes(self) -> int:
        """Return the size of the log's files."""
        paths = (self.path, self.path.with_name(f"{FILE}-wal"))
        return sum(path.stat().st_size for path in paths if path.exists())

    # -- reading -----------------------------------------------------------------------------------------

    def receipt(self, batch_id: str) -> StoredReceipt | None:
        """Return what was answered to a batch id, None if it is new."""
        with self._reporting():
            row = self._run("SELECT digest, receipt FROM receipts WHERE batch_id = ?", batch_id).fetchone()
        return None if row is None else StoredReceipt(row[0], _read_receipt(row[1]))

    def batches(self, first: int) -> Iterator[BatchRecord]:
        """Yield the records from a batch on."""
        if first < self.first_batch:
            raise self._damaged(f"batches before {self.first_batch:,} were dropped, but {first:,} is needed")
        with self._reporting():
            rows = self._run("SELECT number, record FROM batches WHERE number >= ? ORDER BY number", first)
            for number, record in rows:
                yield self._decoded(record, number)

    def _decoded(self, record: bytes, number: int) -> BatchRecord:
        try:
            return BatchRecord.decode(record)
        except ValueError as error:
            raise self._damaged(f"batch {number:,}: {error}") from None

    # -- writing -----------------------------------------------------------------------------------------

    def append(self, new: list[NewBatch]) -> None:
        """Append batches in one transaction; all of them are on disk when this returns, or none is stored.

        Raises ``StorageFullError`` if there is no space.
        """
        end, place = self.end, self._receipts
        with self._reporting(), self._transaction():
            for batch in new:
                if len(batch.record):
                    end = self._insert(batch.record, end)
                if batch.batch_id is not None:
                    place += 1
                    row = (batch.batch_id, place, batch.digest, _write_receipt(batch.receipt))
                    self._run("INSERT INTO receipts VALUES (?, ?, ?, ?, ?)", *row, _checksum(*row))
        self.end, self._receipts = end, place
        self._record_end()

    def _insert(self, batch: BatchRecord, end: LogEnd) -> LogEnd:
        row = (end.batches, end.events, len(batch), batch.encode())
        self._run("INSERT INTO batches VALUES (?, ?, ?, ?, ?)", *row, _checksum(*row))
        return LogEnd(end.batches + 1, end.events + len(batch))

    def drop_step(self, before: int) -> bool:
        """Drop some batches before a number; return whether there are more to drop."""
        first = self.first_batch
        stop = min(before, first + DROPPED_AT_ONCE, self.end.batches)
        if stop <= first:
            return False
        with self._reporting(), self._transaction():
            row = self._run("SELECT first_event + events FROM batches WHERE number = ?", stop - 1).fetchone()
            self._run("DELETE FROM batches WHERE number < ?", stop)
            self._set_fact("dropped_batches", str(stop))
            self._set_fact("dropped_events", str(row[0]))
        with self._reporting():
            self._run("PRAGMA incremental_vacuum").fetchall()
        return stop < before

    def forget_receipts(self, keep: int) -> None:
        """Forget all but the latest batch ids."""
        with self._reporting(), self._transaction():
            self._run("DELETE FROM receipts WHERE place <= ?", self._receipts - keep)

    # -- the end that was acknowledged -------------------------------------------------------------------

    def _record_end(self) -> None:
        assert self._end_file is not None
        content = struct.pack("<qq", *self.end)
        with suppress(OSError):  # it may be behind
            self._end_file.seek(0)
            self._end_file.write(content + struct.pack("<I", zlib.crc32(content)))

    def _recorded_end(self) -> LogEnd:
        data = self._end_path.read_bytes()
        if len(data) != END.size or END.unpack(data)[2] != zlib.crc32(data[:16]):
            return LogEnd(0, 0)  # it was never written, or only half
        return LogEnd(*END.unpack(data)[:2])

    # -- SQLite ------------------------------------------------------------------------------------------

    def _run(self, statement: str, *values: object) -> sqlite3.Cursor:
        assert self._db is not None, "the log is closed"
        return self._db.execute(statement, values)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._run("BEGIN IMMEDIATE")
        try:
            yield
            self._run("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._run("ROLLBACK")
            raise

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        """Turn what SQLite reports into the errors of the package."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code == sqlite3.SQLITE_FULL:
                raise StorageFullError(f"{self.path}: {error}; free some space there.") from error
            if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise self._damaged(str(error)) from error
            raise DiskError(f"{self.path}: {error}; check the disk and its permissions.") from error

    def _damaged(self, problem: str) -> DamagedLogError:
        return DamagedLogError(
            f"The event log {self.path} is damaged: {problem}. Nothing was changed. Restore the folder from "
            "a backup, or start a new one and send the events again."
        )


def _checksum(*values: int | str | bytes) -> int:
    """Return a checksum of a row."""
    found = 0
    for value in values:
        found = zlib.crc32(value if isinstance(value, bytes) else str(value).encode() + b"\0", found)
    return found


def _write_receipt(receipt: Receipt) -> str:
    return json.dumps([receipt.accepted, receipt.rejected, receipt.last_time])


def _read_receipt(text: str) -> Receipt:
    accepted, rejected, last_time = json.loads(text)
    return Receipt(accepted, [Rejection(*one) for one in rejected], True, last_time)
