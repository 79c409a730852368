"""What only a process of its own can tell: how long a start takes, and the peak of memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any


def run_python(*arguments: str) -> Callable[[], None]:
    """A call that starts a fresh interpreter with these arguments and waits for its end."""

    def run() -> None:
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)

    return run


def alone(work: Callable[..., int], *arguments: Any) -> int:
    """``work(*arguments)`` in a process that did nothing before."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()
