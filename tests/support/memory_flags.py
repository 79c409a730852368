"""What memory a process has asked the system for."""

from __future__ import annotations

import sys
from pathlib import Path

ENABLED = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def has_huge_pages() -> bool:
    """Return whether this system gives huge pages to those who ask for them."""
    return sys.platform == "linux" and ENABLED.exists() and "[never]" not in ENABLED.read_text()


def asks_for_huge_pages(address: int) -> bool:
    """Return whether the memory at an address asks for huge pages, which the system flags as ``hg``."""
    return "hg" in _flags(address)


def is_read_by_page(address: int) -> bool:
    """Return whether the file at an address is not read in advance, which the system flags as ``rr``."""
    return "rr" in _flags(address)


def _flags(address: int) -> list[str]:
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name, _, rest = line.partition(" ")
        if "-" in name and not name.endswith(":"):
            first, end = (int(x, 16) for x in name.split("-"))
            inside = first <= address < end
        elif inside and name == "VmFlags:":
            return rest.split()
    raise AssertionError("the address is in no memory of this process")
