"""A lock for many readers or one writer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class ReadWriteLock:
    """Lets any number of threads read, or one write; a waiting writer goes before new readers.

    A thread that reads may read again, and one that writes may read and write again. A thread that only
    reads cannot start to write: two of them would wait for each other.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._readers = 0
        self._writing = False
        self._waiting = 0  # writers
        self._held = threading.local()  # whether this thread reads or writes

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Wait for a writer to finish, then keep others from starting."""
        if self._mode is not None:
            yield
            return
        with self._changed:
            self._changed.wait_for(lambda: not self._writing and not self._waiting)
            self._readers += 1
        with self._as_reader():
            yield

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Wait for all readers and writers to finish, and keep others from starting."""
        if self._mode == "writing":
            yield
            return
        if self._mode == "reading":
            raise RuntimeError("A thread that is reading cannot write; finish reading first.")
        self._wait_to_write()
        self._held.kind = "writing"
        try:
            yield
        finally:
            self._held.kind = None
            with self._changed:
                self._writing = False
                self._changed.notify_all()

    @contextmanager
    def reading_after(self, change: Callable[[], None]) -> Iterator[None]:
        """Change something alone, then read together with others before any writer changes it again."""
        if self._mode is not None:
            raise RuntimeError("A thread that is reading or writing cannot start another change.")
        self._wait_to_write()
        try:
            change()
        except BaseException:
            self._release(reading=False)
            raise
        self._release(reading=True)
        with self._as_reader():
            yield

    @contextmanager
    def _as_reader(self) -> Iterator[None]:
        """Let this thread, which counts as a reader already, read."""
        self._held.kind = "reading"
        try:
            yield
        finally:
            self._held.kind = None
            with self._changed:
                self._readers -= 1
                self._changed.notify_all()

    def _release(self, *, reading: bool) -> None:
        """Stop writing, and start to read in the same moment."""
        with self._changed:
            self._writing = False
            self._readers += reading
            self._changed.notify_all()

    @property
    def _mode(self) -> str | None:
        return getattr(self._held, "kind", None)

    def _wait_to_write(self) -> None:
        with self._changed:
            self._waiting += 1
            try:
                self._changed.wait_for(lambda: not self._writing and not self._readers)
                self._writing = True
            finally:
                self._waiting -= 1
                self._changed.notify_all()
