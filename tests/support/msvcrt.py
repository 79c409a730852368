"""A stand-in for Windows' ``msvcrt``: locks on ranges of bytes, from the current position of a file."""

from __future__ import annotations

import errno
import fcntl
import os
from types import SimpleNamespace


def stand_in() -> SimpleNamespace:
    return SimpleNamespace(LK_NBLCK=2, locking=_locking)


def _locking(handle: int, mode: int, count: int) -> None:
    assert mode == 2
    start = os.lseek(handle, 0, os.SEEK_CUR)
    assert start > 1000, "a locked byte cannot be read: it must not be one of the content"
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, count, start, os.SEEK_SET)
    except BlockingIOError:
        raise PermissionError(errno.EACCES, "Permission denied") from None
