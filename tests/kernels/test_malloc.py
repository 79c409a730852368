"""Freed memory stays in the process."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

PAGE_FAULTS = """
import resource, sys
from contig.kernels.malloc import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for megabytes in range(1, 25):
    bytearray(megabytes * 2**20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux" or platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_freed_memory_is_kept() -> None:
    """Each block is longer than all before, so by default glibc fetches the whole of it from the system."""
    faults = {}
    for mode in ("kept", "default"):
        command = [sys.executable, "-c", PAGE_FAULTS, mode]
        faults[mode] = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert 5 * faults["kept"] < faults["default"]
