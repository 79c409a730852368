"""Arrays in files: mapped into memory with space to grow, or created there."""

from __future__ import annotations

import ctypes
import os
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np

from contig.data.columns import Array
from contig.files import disk_errors

READ_WRITE, PRIVATE, FIXED, ANONYMOUS, NO_RESERVE = 0x3, 0x2, 0x10, 0x20, 0x4000  # of mmap on Linux
FAILED = ctypes.c_void_p(-1).value
HUGE_PAGE = 1 << 21  # bytes; a file is mapped by huge pages only from a multiple of this address on


def map_private(path: Path) -> Array:
    """Map a ``.npy`` file; what is written to the array stays in this process."""
    array: Array = np.lib.format.open_memmap(path, mode="c")
    return array


def map_growing(path: Path) -> Array:
    """Map a file as ``map_private`` does, followed by as many rows again for new values.

    Those rows take no memory until they are written to, so that appending to a large array does not copy it.
    Where the system cannot do this, there are no such rows.
    """
    array = map_private(path)
    if sys.platform != "linux" or not len(array):
        return array
    header, size = array.offset, array.nbytes  # type: ignore[attr-defined]
    memory = _reserve_and_map(path, header + 2 * size)
    if memory is None:
        return array
    grown: Array = np.frombuffer(memory, array.dtype, 2 * array.size, header)
    return grown.reshape(2 * len(array), *array.shape[1:])


def _reserve_and_map(path: Path, size: int) -> Any:
    """Reserve addresses, and map a file to the first of them; None where that fails.

    With huge pages random reads of a large file miss the cache of addresses far less often.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    reserved = size + HUGE_PAGE
    start = libc.mmap(None, reserved, READ_WRITE, PRIVATE | ANONYMOUS | NO_RESERVE, -1, 0)
    if start == FAILED:
        return None
    address = -(-start // HUGE_PAGE) * HUGE_PAGE
    with path.open("rb") as file:
        length = os.fstat(file.fileno()).st_size
        flags = PRIVATE | FIXED | NO_RESERVE
        if libc.mmap(address, length, READ_WRITE, flags, file.fileno(), 0) == FAILED:
            libc.munmap(start, reserved)
            return None
    memory = (ctypes.c_char * size).from_address(address)
    weakref.finalize(memory, libc.munmap, start, reserved)
    return memory


def create_array(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Create a file of zeros and map it; what is written to the array is written to the file.

    The space is reserved first: a full disk is an error here, not a crash when a page is written.
    """
    with disk_errors(path):
        array: Array = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
        if hasattr(os, "posix_fallocate"):
            with path.open("r+b") as file:
                os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return array
