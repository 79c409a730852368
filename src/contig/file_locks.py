"""Locks on open files that end with their process: ``flock``, or its counterpart on Windows."""

from __future__ import annotations

import errno
import importlib
import os
import sys
import time
from typing import IO, Any, Protocol


class FileLock(Protocol):
    """How this system locks an open file."""

    removes_open_files: bool  # whether a file can be removed by the process that has it open

    def acquire(self, file: IO[str], *, wait: bool) -> bool:
        """Lock a file until it is closed; return False if another process has it and ``wait`` is not set.

        Raises ``OSError`` on file systems without locks.
        """


class UnixLock:
    """``flock``."""

    removes_open_files = True

    def __init__(self, fcntl: Any = None) -> None:
        self.fcntl = fcntl or importlib.import_module("fcntl")

    def acquire(self, file: IO[str], *, wait: bool) -> bool:
        try:
            self.fcntl.flock(file, self.fcntl.LOCK_EX | (0 if wait else self.fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        return True


class WindowsLock:
    """``msvcrt.locking``, on one byte far behind the content: nobody else can read a locked byte."""

    removes_open_files = False
    PLACE = 1 << 30
    TAKEN = (errno.EACCES, errno.EDEADLK, 36)  # 36 is EDEADLOCK there
    PAUSE = 0.1  # seconds

    def __init__(self, msvcrt: Any = None) -> None:
        self.msvcrt = msvcrt or importlib.import_module("msvcrt")

    def acquire(self, file: IO[str], *, wait: bool) -> bool:
        while not self._try(file.fileno()):
            if not wait:
                return False
            time.sleep(self.PAUSE)  # a blocking call would give up after ten seconds
        return True

    def _try(self, handle: int) -> bool:
        os.lseek(handle, self.PLACE, os.SEEK_SET)
        try:
            self.msvcrt.locking(handle, self.msvcrt.LK_NBLCK, 1)
        except OSError as error:
            if error.errno in self.TAKEN:
                return False
            raise
        finally:
            os.lseek(handle, 0, os.SEEK_SET)
        return True


def system_lock() -> FileLock:
    """Return the kind of lock that this system has."""
    return WindowsLock() if sys.platform == "win32" else UnixLock()
