"""Copies of this process, which start at once."""

from __future__ import annotations

import os
import signal
import time
import warnings
from collections.abc import Callable

from contig.errors import ContigError

REFUSED = 2  # the exit code of a copy that ended with a ContigError


def fork(use: Callable[[], int]) -> int:
    """Run a function in a forked process, silently; return its process id."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of torch, which the child does not use
        pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        code = use()
    except ContigError:
        code = REFUSED
    except BaseException:
        code = 1
    finally:
        os._exit(code)


def join(pid: int, within: float = 300) -> int:
    """Return the exit code of a forked process; fail if it does not end within so many seconds."""
    code = join_within(pid, within)
    assert code is not None, f"process {pid} did not end within {within:.0f} s"
    return code


def join_within(pid: int, seconds: float) -> int | None:
    """Return the exit code of a forked process, or None if it had to be stopped."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None
