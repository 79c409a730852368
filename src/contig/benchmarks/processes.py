"""Measurements that need a process of their own: start-up time and peak memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, TypeVar

T = TypeVar("T")


def run_python(*arguments: str) -> None:
    """Run a fresh interpreter with these arguments and wait for it."""
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)


def in_new_process(work: Callable[..., T], *arguments: Any) -> T:
    """Call ``work(*arguments)`` in a fresh process, so that its peak memory is its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()
