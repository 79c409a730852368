"""DuckDB in bounded memory, whose work Ctrl-C ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread, current_thread, main_thread
from typing import TYPE_CHECKING, Any, TypeVar

from contig.errors import ConfigError, DataError, DiskError

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

T = TypeVar("T")
ROWS_FETCHED = 1 << 18
INTERRUPT_EVERY = 0.05  # seconds


class Database:
    """A connection to DuckDB whose work Ctrl-C ends.

    An exception in the middle of the work may get lost: pyarrow imports pandas when it first converts a
    column, and takes whatever ends that import, also Ctrl-C, for a sign that pandas is not installed. So
    Ctrl-C is noted, ends the query that is running, and is raised as ``KeyboardInterrupt`` before and after
    each query and each part of a result. A second Ctrl-C is raised at once.

    DuckDB forgets an interruption when a query begins, so that one just before would be lost. Therefore a
    thread interrupts again and again, until the work has ended.
    """

    def __init__(self, connection: DuckDBPyConnection) -> None:
        self._connection = connection
        self._interrupted = False
        self._interrupter = Thread(target=self._keep_interrupting, daemon=True)
        self._ended = Event()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return the result of a query, or of the last one of several."""
        with self._checked():
            return self._connection.execute(query).fetchall()

    def row(self, query: str) -> tuple[Any, ...]:
        """Return the only row of a result."""
        (row,) = self.rows(query)
        return tuple(row)

    def batches(self, query: str) -> Iterator[pa.RecordBatch]:
        """Return a result of any size, a part of it at a time."""
        with self._checked():
            reader = self._connection.sql(query).to_arrow_reader(ROWS_FETCHED)
        while True:
            with self._checked():
                batch = next(reader, None)
            if batch is None:
                return
            yield batch

    def each(self, items: Iterable[T]) -> Iterator[T]:
        """Yield what takes long to work on, one after another, unless Ctrl-C was pressed."""
        for item in items:
            self._check()
            yield item

    @contextmanager
    def _checked(self) -> Iterator[None]:
        """Raise ``KeyboardInterrupt`` before or after the block if Ctrl-C was pressed."""
        self._check()
        try:
            yield
        finally:
            self._check()  # instead of what DuckDB says about a query that was interrupted

    def _check(self) -> None:
        if self._interrupted:
            raise KeyboardInterrupt from None

    def _interrupt(self, number: int, frame: object) -> None:
        """Handle the signal of Ctrl-C."""
        repeated, self._interrupted = self._interrupted, True
        if repeated:
            raise KeyboardInterrupt
        self._interrupter.start()

    def _keep_interrupting(self) -> None:
        while not self._ended.is_set():  # which it is if a second Ctrl-C came while this thread started
            self._connection.interrupt()
            self._ended.wait(INTERRUPT_EVERY)

    def close(self) -> None:
        """Close the connection."""
        self._ended.set()
        if self._interrupter.is_alive():
            self._interrupter.join()
        self._connection.close()

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Note Ctrl-C in this block, unless it has another meaning; other threads never receive it."""
        usual = signal.default_int_handler
        if current_thread() is not main_thread() or signal.getsignal(signal.SIGINT) is not usual:
            yield
            return
        signal.signal(signal.SIGINT, self._interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, usual)
        self._check()


@contextmanager
def connected(folder: Path, memory: int) -> Iterator[Database]:
    """Open DuckDB's working file in a folder, with bounded memory; what does not fit goes to the disk."""
    try:
        import duckdb
    except ImportError:
        raise ConfigError("Indexing needs DuckDB; install it with: pip install 'contig[index]'") from None
    database = None
    try:
        database = Database(duckdb.connect(str(folder / "work.duckdb")))
        with database.interruptible():
            database.rows(f"SET memory_limit='{max(memory >> 20, 64)}MiB'")
            database.rows(f"SET temp_directory={sql_text(str(folder / 'spill'))}")
            database.rows(f"SET threads={int(os.environ.get('OMP_NUM_THREADS') or os.cpu_count() or 1)}")
            database.rows("SET enable_progress_bar=false")
            # Parquet's statistics leave NaN out: this optimizer takes a column with some for one without.
            database.rows("SET disabled_optimizers='statistics_propagation'")
            yield database
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except duckdb.Error as error:
        raise _explained(error, folder) from error
    except RuntimeError as error:
        if "interrupted" in str(error):  # by an exception of another signal handler
            raise KeyboardInterrupt from None
        raise
    finally:
        if database is not None:
            database.close()


def _explained(error: Exception, folder: Path) -> Exception:
    reason = str(error).splitlines()[0][:300]
    if "No space left" in str(error) or "max_temp_directory_size" in str(error):
        return DiskError(f"{folder}: {reason}; free some space there, or choose another folder.")
    if "OutOfMemory" in type(error).__name__:
        return ConfigError(f"The memory is too small for these files ({reason}); raise --memory (memory=).")
    return DataError(f"The files cannot be read ({reason}); check them, or write them again.")


def sql_text(value: str) -> str:
    """Return a text as SQL writes it."""
    escaped = value.replace("'", "''")
    return f"'{escaped}'"
