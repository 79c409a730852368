"""Arrays in files: mapped into memory with space to grow, or created there."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from contig.data.columns import Array
from contig.files import disk_errors

READ_WRITE, PRIVATE, FIXED, ANONYMOUS, NO_RESERVE = 0x3, 0x2, 0x10, 0x20, 0x4000  # of mmap on Linux
FAILED = ctypes.c_void_p(-1).value
HUGE_PAGE = 1 << 21  # bytes; a file is mapped by huge pages only from a multiple of this address on
# Shares of the memory that a file may fill; an index has four times the size of its largest file.
HUGE_PAGES_UP_TO, IN_ADVANCE_UP_TO = 1 / 8, 1 / 4
OWN_GROUPS, GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")  # of containers on Linux


def map_private(path: Path, *, scattered: bool = False) -> Array:
    """Map a ``.npy`` file; what is written to the array stays in this process.

    ``scattered`` says that its rows are read at random places.
    """
    array: Array = np.lib.format.open_memmap(path, mode="c")
    memory: Any = array.base
    if scattered and isinstance(memory, mmap.mmap) and not is_read_in_advance(len(memory)):
        memory.madvise(mmap.MADV_RANDOM)
        header = array.offset  # type: ignore[attr-defined]
        _note_scattered(memory, array.ctypes.data - header, len(memory))
    return array


def map_growing(path: Path, *, scattered: bool = False) -> Array:
    """Map a file as ``map_private`` does, followed by as many rows again for new values.

    Those rows take no memory until they are written to, so that appending to a large array does not copy it.
    Where the system cannot do this, there are no such rows.
    """
    array = map_private(path, scattered=scattered)
    if sys.platform != "linux" or not len(array):
        return array
    header, size = array.offset, array.nbytes  # type: ignore[attr-defined]
    memory = _reserve_and_map(path, header + 2 * size, scattered)
    if memory is None:
        return array
    grown: Array = np.frombuffer(memory, array.dtype, 2 * array.size, header)
    return grown.reshape(2 * len(array), *array.shape[1:])


def _reserve_and_map(path: Path, size: int, scattered: bool) -> Any:
    """Reserve addresses, and map a file to the first of them; None where that fails."""
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
    by_page = _advise(libc, address, length, scattered)
    memory = (ctypes.c_char * size).from_address(address)
    call_when_gone(memory, libc.munmap, start, reserved)
    if by_page:
        _note_scattered(memory, address, length)
    return memory


def call_when_gone(thing: object, function: Callable[..., object], *arguments: object) -> None:
    """Call a function when nothing refers to something any more, the last one given first.

    Not at the end of the process: other threads may still use it then, and the system removes all mappings.
    """
    weakref.finalize(thing, function, *arguments).atexit = False


def _advise(libc: Any, address: int, length: int, scattered: bool) -> bool:
    """Say how a mapped file is read: in huge pages if it is small, in single ones if it is large.

    Returns whether it is read in single ones.

    Random reads of a large file in huge pages miss the cache of addresses far less often, and it is read from
    the disk in pieces of 2 MiB. A file that does not stay in memory would be read in these again and again.
    """
    advice = None
    if HUGE_PAGE <= length <= HUGE_PAGES_UP_TO * memory_size():
        advice = getattr(mmap, "MADV_HUGEPAGE", None)
    elif scattered and not is_read_in_advance(length):
        advice = mmap.MADV_RANDOM
    if advice is not None:
        _madvise(libc, address, length, advice)
    return advice == mmap.MADV_RANDOM


def _madvise(libc: Any, address: int, length: int, advice: int) -> None:
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    libc.madvise(address, length, advice)  # only advice: a system without huge pages refuses it


_scattered: dict[int, int] = {}  # files that are read page by page: their addresses and lengths


def _note_scattered(memory: object, address: int, length: int) -> None:
    _scattered[address] = length
    call_when_gone(memory, _scattered.pop, address, None)


@contextmanager
def read_in_order(arrays: Iterable[Array]) -> Iterator[None]:
    """Declare that arrays, also those mapped as scattered, are read in order in this block."""
    starts = [array.ctypes.data for array in arrays]
    files = [file for file in list(_scattered.items()) if any(0 <= at - file[0] < file[1] for at in starts)]
    libc = ctypes.CDLL(None) if files else None
    for address, length in files:
        _madvise(libc, address, length, mmap.MADV_NORMAL)
    try:
        yield
    finally:
        for address, length in files:
            _madvise(libc, address, length, mmap.MADV_RANDOM)


def is_read_in_advance(length: int) -> bool:
    """Return whether reading one page of a file may read those around it.

    In a file that does not stay in memory, they take the place of pages that were needed. What a system
    reads page by page it may keep without regard to when it was used (Linux since 6.3).
    """
    return not hasattr(mmap, "MADV_RANDOM") or length <= IN_ADVANCE_UP_TO * memory_size()


def memory_size() -> int:
    """Return the size of the machine's memory in bytes, or the limit of the container if that is less."""
    return min([os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *_limits()])


def _limits() -> Iterator[int]:
    """Yield the limits of the groups of processes that this one belongs to (cgroups of both versions)."""
    try:
        lines = OWN_GROUPS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return
    for _, kinds, path in (line.split(":", 2) for line in lines if line.count(":") >= 2):
        if kinds and "memory" not in kinds.split(","):
            continue
        root, name = (GROUPS / "memory", "memory.limit_in_bytes") if kinds else (GROUPS, "memory.max")
        inner = root / path.lstrip("/")  # which a container may not see: then its own is the root
        for folder in (inner, *inner.parents[: len(inner.parts) - len(root.parts)]):
            with suppress(OSError, ValueError):  # no such file, or "max"
                yield int((folder / name).read_text())


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
