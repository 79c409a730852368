"""Locks on folders: one process at a time writes to a run, and a lock ends with its process."""

from __future__ import annotations

import json
import logging
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from contig.errors import RunError
from contig.file_locks import FileLock, system_lock
from contig.files import disk_errors

log = logging.getLogger("contig")

LOCK = ".lock"


@contextmanager
def locked(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold the lock of a folder, which is created if need be; raise ``RunError`` if another process has it.

    ``wait`` waits for that process instead. A folder that is still empty at the end is removed if it was
    created for the lock.
    """
    new, lock = not folder.exists(), system_lock()
    file = _acquire(folder, lock, wait)
    try:
        yield
    finally:
        _release(file, folder, lock)
        if new:
            with suppress(OSError):
                folder.rmdir()


def is_locked(folder: Path) -> bool:
    """Return whether a process holds the lock of a folder; True where that cannot be known.

    The lock is taken for an instant, in which another process that wants it fails.
    """
    try:
        with (folder / LOCK).open("r+") as file:
            return not system_lock().acquire(file, wait=False)  # which ends with the block
    except FileNotFoundError:
        return False
    except OSError:  # no permission, or a file system without locks
        return True


def is_abandoned(folder: Path) -> bool:
    """Return whether a process of this machine held the lock of a folder and was killed.

    False where that cannot be known: where the file system has no locks, or for a process of another machine,
    whose locks not every file system shows.
    """
    try:
        with (folder / LOCK).open("r+") as file:
            return system_lock().acquire(file, wait=False) and _signature(file)["host"] == platform.node()
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _release(file: IO[str], folder: Path, lock: FileLock) -> None:
    own = _is_current(file, folder / LOCK)  # not where another folder has taken the place of this one
    if not lock.removes_open_files:  # nor can it be removed while the next process has it open
        file.close()
    if own:
        with suppress(OSError):
            (folder / LOCK).unlink()
    file.close()


def _acquire(folder: Path, lock: FileLock, wait: bool) -> IO[str]:
    while True:
        with disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            try:
                file = (folder / LOCK).open("a+")
            except FileNotFoundError:  # the process that created the folder has just removed it
                continue
        try:
            _lock(file, folder, lock, wait)
            if _is_current(file, folder / LOCK):
                _sign(file)
                return file
        except BaseException:
            file.close()
            raise
        file.close()  # it was removed by the process that had it


def _lock(file: IO[str], folder: Path, lock: FileLock, wait: bool) -> None:
    try:
        if lock.acquire(file, wait=False):
            return
        if not wait:
            raise RunError(
                f"{folder} is in use by {_holder(file)}. Wait until that has ended, or choose another folder."
            )
        log.info("waiting for %s, which uses %s", _holder(file), folder)
        lock.acquire(file, wait=True)
    except OSError as error:
        log.debug("%s has no locks: %s", folder, error)  # some network file systems


def _is_current(file: IO[str], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _sign(file: IO[str]) -> None:
    """Say who holds the lock."""
    started = f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S %z}"
    text = json.dumps({"pid": os.getpid(), "host": platform.node(), "started": started})
    # Without a buffer: on a full disk, where the lock holds without its text, closing would try again.
    with suppress(OSError):
        os.ftruncate(file.fileno(), 0)
        os.write(file.fileno(), text.encode())


def _holder(file: IO[str]) -> str:
    try:
        holder = _signature(file)
        host = str(holder.get("host", platform.node()))[:80]
        place = "" if host == platform.node() else f" on {host}"
        return f"process {int(holder['pid'])}{place} since {str(holder['started'])[:40]}"
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return "another process"


def _signature(file: IO[str]) -> Any:
    """Return what the process that holds or held a lock has written about itself."""
    file.seek(0)
    return json.loads(file.read())
