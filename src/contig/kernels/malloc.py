"""Tune the C library's memory allocator."""

from __future__ import annotations

import ctypes
import sys

RETAINED_BYTES = 2**28  # freed memory that the process keeps; several training steps' worth
MMAP_BYTES = 2**25  # larger blocks are mapped individually and returned as soon as they are freed
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # the values in glibc's malloc.h


def keep_freed_memory() -> None:
    """Keep freed memory in the process instead of returning it to the system.

    Otherwise every training step takes thousands of page faults, a tenth of its time. The setting
    affects the whole process, so it is for programs to call, not for libraries. It does nothing
    without glibc.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, MMAP_BYTES)
        mallopt(_M_TRIM_THRESHOLD, RETAINED_BYTES)
