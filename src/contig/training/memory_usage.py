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


class PeakMeter:
    """Measures peak memory from now on.

    On a GPU this is the memory of the tensors that torch allocates there, without those that existed before.
    On a CPU it is the resident set of the process, interpreter and libraries included; on systems other than
    Linux it counts from the start of the process.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._before = 0
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
            self._before = torch.cuda.memory_allocated(device)
        else:
            with suppress(OSError):
                CLEAR_REFS.write_text("5")

    def peak(self) -> PeakMemory:
        """Return the peak so far."""
        if self._device.type == "cuda":
            peak = torch.cuda.max_memory_allocated(self._device) - self._before
            return PeakMemory(bytes=peak, of=measured_on(self._device))
        return PeakMemory(bytes=_peak_resident(), of=measured_on(self._device))


def measured_on(device: torch.device) -> str:
    """Say what the peak memory on a device is of."""
    return "tensors on the GPU" if device.type == "cuda" else "the whole process"


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
