"""Work in parts: every item exactly once, errors come out, forks survive."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contig.kernels.accelerators import in_parallel, ranges


@given(count=st.integers(0, 50), parts=st.integers(-1, 9))
def test_ranges_cover_everything_once(count: int, parts: int) -> None:
    found = ranges(count, parts)
    assert [i for first, end in found for i in range(first, end)] == list(range(count))
    assert len(found) == max(1, min(parts, count))
    sizes = [end - first for first, end in found]
    assert max(sizes) - min(sizes) <= 1


def test_parts_run_at_the_same_time() -> None:
    """Each waits for all the others, so one after another would never end."""
    meeting, seen = threading.Barrier(3, timeout=30), []

    def work(first: int, end: int) -> None:
        meeting.wait()
        seen.append((first, end))

    in_parallel(work, ranges(10, 3))
    assert sorted(seen) == ranges(10, 3)


def test_an_error_of_any_part_comes_out() -> None:
    def work(first: int, end: int) -> None:
        if first:
            raise ValueError(f"part {first}")

    with pytest.raises(ValueError, match="part 5"):
        in_parallel(work, ranges(10, 2))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_makes_threads_of_its_own() -> None:
    in_parallel(lambda first, end: None, ranges(4, 2))
    child = os.fork()
    if child == 0:
        done: list[int] = []
        in_parallel(lambda first, end: done.append(first), ranges(4, 2))
        os._exit(0 if sorted(done) == [0, 2] else 1)
    assert os.waitpid(child, 0)[1] == 0


FAULTS = """
import resource, sys
from contig.kernels.accelerators import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for megabytes in range(1, 25):
    bytearray(megabytes * 2**20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux" or platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_freed_memory_is_kept() -> None:
    """Each longer than all before, so that glibc would ask the system for all of it and not just for more."""
    faults = {}
    for how in ("kept", "not"):
        words = [sys.executable, "-c", FAULTS, how]
        faults[how] = int(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    assert 5 * faults["kept"] < faults["not"]
