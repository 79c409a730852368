"""Exchanging a run's folder with another one, in one step where the system can."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from contig.files import sync

AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of renameat2 in Linux
RENAME_SWAP = 2  # of renamex_np in macOS


def former_folder(run: Path) -> Path:
    """Return where a run is for a moment on systems that cannot exchange two folders."""
    run = run.absolute()  # "." has no name
    return run.parent / f".{run.name}.former"


def restore_former(run: Path) -> None:
    """Put a run back in its place that a killed process was about to replace."""
    former = former_folder(run)
    if not run.exists() and former.exists():
        with suppress(OSError):  # another process does so at this moment
            former.rename(run)


def exchange(run: Path, draft: Path) -> None:
    """Exchange two folders in one step, where the system can; otherwise ``restore_former`` repairs it."""
    if not _exchanged(run, draft):
        former = former_folder(run)
        shutil.rmtree(former, ignore_errors=True)
        run.rename(former)
        draft.rename(run)
        former.rename(draft)
    sync(run.parent)


def _exchanged(one: Path, other: Path) -> bool:
    paths = os.fsencode(one), os.fsencode(other)
    try:
        libc = ctypes.CDLL(None)
        if sys.platform == "darwin":
            return bool(libc.renamex_np(*paths, RENAME_SWAP) == 0)
        return bool(libc.renameat2(AT_FDCWD, paths[0], AT_FDCWD, paths[1], RENAME_EXCHANGE) == 0)
    except (AttributeError, OSError, TypeError):  # no such function here
        return False
