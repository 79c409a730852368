"""Run compiled code on several threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from itertools import pairwise
from threading import Lock, Thread
from typing import TypeVar

import torch

T = TypeVar("T")
_starting = Lock()


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    # Not numba's own threads: they abort the process when two callers use them at the same time.
    return ThreadPoolExecutor(workers, thread_name_prefix="contig")


@cache
def _single_threaded_pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="contig-torch", initializer=_use_one_thread)


def _use_one_thread() -> None:
    """Let torch use one thread in operations of this thread, and as many as before in new threads."""
    with _starting:
        others = torch.get_num_threads()  # a thread takes over the number of all at its first use of torch
        torch.set_num_threads(1)  # also what threads that are started from now on get
        restore = Thread(target=torch.set_num_threads, args=(others,))
        restore.start()
        restore.join()


def _forget_threads() -> None:
    global _starting
    _starting = Lock()
    _pool.cache_clear()
    _single_threaded_pool.cache_clear()


if hasattr(os, "register_at_fork"):  # threads do not survive a fork
    os.register_at_fork(after_in_child=_forget_threads)


def split_range(count: int, parts: int) -> list[tuple[int, int]]:
    """Split ``0..count`` into at most ``parts`` ranges ``(first, end)`` of nearly equal size.

    There is always at least one range, and none is empty unless ``count`` is 0.
    """
    parts = max(1, min(parts, count))
    return list(pairwise(count * i // parts for i in range(parts + 1)))


def run_parallel(work: Callable[[int, int], None], ranges: Sequence[tuple[int, int]]) -> None:
    """Call ``work(first, end)`` for every range, each on its own thread.

    This is only faster if ``work`` releases the GIL. An exception in any range is raised here.
    """
    if len(ranges) > 1:
        pending = [_pool(len(ranges) - 1).submit(work, *part) for part in ranges[1:]]
        work(*ranges[0])
        for future in pending:
            future.result()
    else:
        work(*ranges[0])


def share_among_threads(work: Callable[[T], None], pieces: Iterable[T]) -> None:
    """Call ``work(piece)`` for every piece, on as many threads as torch has, each of which computes alone.

    Faster than threads within each operation where there are many small ones. The first exception is raised
    here, once no piece is being worked on. Where gradients are recorded, one piece follows the other: pieces
    may write to one tensor.
    """
    threads = torch.get_num_threads()
    if threads == 1 or torch.is_grad_enabled():
        for piece in pieces:
            work(piece)
        return
    inference = torch.is_inference_mode_enabled()

    def call(piece: T) -> None:
        with torch.inference_mode(inference), torch.no_grad():  # each thread has its own modes
            work(piece)

    pending = [_single_threaded_pool(threads).submit(call, piece) for piece in pieces]
    try:
        for future in pending:
            future.result()
    finally:
        for future in pending:
            future.cancel()
        wait(pending)
