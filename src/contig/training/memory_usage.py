"""Peak memory of a training."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from pathlib import Path

import torch

from contig.runs.metrics import PeakMemory

STATUS = Path("/proc/self/status")
CLEAR_REFS = Path("/proc/self/clear_refs")  # writing 5 resets the peak to the memory now in use


def reset_peak(device: torch.device) -> None:
    """Start measuring; on a CPU this works on Linux only."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    else:
        with suppress(OSError):
            CLEAR_REFS.write_text("5")


def peak_memory(device: torch.device) -> PeakMemory:
    """Return the peak since ``reset_peak``.

    On a GPU this is the memory that torch allocated there. On a CPU it is the resident set of the process,
    interpreter and libraries included; on systems other than Linux it counts from the start of the process.
    """
    if device.type == "cuda":
        return PeakMemory(bytes=torch.cuda.max_memory_allocated(device), of="tensors on the GPU")
    return PeakMemory(bytes=_peak_resident(), of="the whole process")


def _peak_resident() -> int | None:
    """Return the largest resident set of this process in bytes; None where the system does not report it."""
    # On Linux a child inherits ru_maxrss, so one started by a large process would look as large itself.
    if STATUS.exists() and (found := re.search(r"^VmHWM:\s*(\d+) kB$", STATUS.read_text(), re.MULTILINE)):
        return 1024 * int(found[1])
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
