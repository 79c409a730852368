"""Threads for the calls of the engine, which block; the event loop never waits for one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class Workers:
    """Two bounded pools: a burst of events does not keep answers waiting, nor the other way round."""

    def __init__(self, readers: int, writers: int) -> None:
        self._readers = ThreadPoolExecutor(readers, thread_name_prefix="contig-read")
        self._writers = ThreadPoolExecutor(writers, thread_name_prefix="contig-write")

    async def read(self, call: Callable[[], T]) -> T:
        """Run a call that only reads."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, call)

    async def write(self, call: Callable[[], T]) -> T:
        """Run a call that takes in events."""
        return await asyncio.get_running_loop().run_in_executor(self._writers, call)

    def finish(self) -> None:
        """Wait for every call that was started."""
        self._writers.shutdown(wait=True)
        self._readers.shutdown(wait=True, cancel_futures=True)
