"""How much memory a training took at its peak."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from pathlib import Path

import torch

from contig.runs.metrics import PeakMemory

STATUS = Path("/proc/self/status")
CLEAR_REFS = Path("/proc/self/clear_refs")  # writing 5 resets the peak to what is in use


def reset_peak(device: torch.device) -> None:
    """Measure from here on; the peak of a process can be reset on Linux only."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    else:
        with suppress(OSError):
            CLEAR_REFS.write_text("5")


def peak_memory(device: torch.device) -> PeakMemory:
    """Measure the peak.

    On a GPU what torch had allocated there since ``reset_peak``. On a CPU the resident set of the
    process, interpreter and libraries included: since ``reset_peak`` on Linux, elsewhere since its start.
    """
    if device.type == "cuda":
        return PeakMemory(bytes=torch.cuda.max_memory_allocated(device), of="tensors on the GPU")
    return PeakMemory(bytes=_peak_resident(), of="the whole process")


def _peak_resident() -> int | None:
    """None where the system does not tell."""
    # Linux hands ru_maxrss on to a child: one started by a large process would seem as large itself.
    if STATUS.exists() and (found := re.search(r"^VmHWM:\s*(\d+) kB$", STATUS.read_text(), re.MULTILINE)):
        return 1024 * int(found[1])
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
