"""Copies of this process, which start at once."""

from __future__ import annotations

import os
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


def join(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
