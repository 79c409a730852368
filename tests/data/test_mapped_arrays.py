"""Mapped arrays read as their files do, grow in memory alone, and use huge pages if they are small enough."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.memory_flags import asks_for_huge_pages, has_huge_pages, is_read_by_page

from contig.data import mapped_arrays
from contig.data.columns import Array
from contig.data.mapped_arrays import HUGE_PAGE, map_growing, map_private, memory_size, read_in_order


@pytest.mark.parametrize("shape", [(7,), (300_001,), (50_003, 5)])
def test_a_mapped_array_grows_in_memory_alone(tmp_path: Path, shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).integers(0, 1 << 40, shape)
    path = tmp_path / "values.npy"
    np.save(path, values)
    before = path.read_bytes()
    grown = map_growing(path)
    np.testing.assert_array_equal(grown[: len(values)], values)
    if sys.platform == "linux":
        assert len(grown) == 2 * len(values)
        grown[len(values) :] = values[::-1]
    grown[0] = -1
    np.testing.assert_array_equal(grown[1 : len(values)], values[1:])
    assert path.read_bytes() == before


AT_THE_END = """
import atexit, sys

arrays = []
atexit.register(lambda: print(sum(int(one.sum()) for one in arrays)))  # after all that is registered later

from pathlib import Path
from contig.data.mapped_arrays import map_growing

arrays.append(map_growing(Path(sys.argv[1])))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="arrays grow on Linux")
def test_arrays_can_be_read_while_the_process_ends(tmp_path: Path) -> None:
    path = tmp_path / "values.npy"
    np.save(path, np.arange(1000))
    command = [sys.executable, "-c", AT_THE_END, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "499500\n", "")


@pytest.mark.skipif(not has_huge_pages(), reason="this system has no huge pages")
def test_only_files_that_stay_in_memory_are_read_in_huge_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that takes more than an eighth of the memory may be read from the disk again and again."""
    path = tmp_path / "values.npy"
    np.save(path, np.zeros(4 * HUGE_PAGE, np.uint8))
    size = path.stat().st_size

    def asks(memory: int) -> bool:
        monkeypatch.setattr(mapped_arrays, "memory_size", lambda: memory)
        array = map_growing(path)
        return asks_for_huge_pages(array.ctypes.data + HUGE_PAGE)

    assert asks(8 * size)
    assert not asks(8 * size - 1)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_only_scattered_files_that_leave_the_memory_are_read_page_by_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "values.npy"
    np.save(path, np.zeros(4 * HUGE_PAGE, np.uint8))
    size = path.stat().st_size

    def by_page(memory: int, *, scattered: bool) -> list[bool]:
        monkeypatch.setattr(mapped_arrays, "memory_size", lambda: memory)
        arrays = [how(path, scattered=scattered) for how in (map_private, map_growing)]
        return [is_read_by_page(array.ctypes.data + HUGE_PAGE) for array in arrays]

    assert by_page(4 * size - 1, scattered=True) == [True, True]
    assert by_page(4 * size, scattered=True) == [False, False]
    assert by_page(4 * size - 1, scattered=False) == [False, False]


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("how", [map_private, map_growing])
def test_a_pass_over_a_scattered_file_reads_in_advance(
    how: Callable[..., Array], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "values.npy"
    np.save(path, np.zeros(4 * HUGE_PAGE, np.uint8))
    monkeypatch.setattr(mapped_arrays, "memory_size", lambda: path.stat().st_size)
    arrays = [how(path, scattered=True) for _ in range(2)]

    def by_page() -> list[bool]:
        return [is_read_by_page(array.ctypes.data + HUGE_PAGE) for array in arrays]

    with read_in_order([arrays[0][3:], np.zeros(5)]):
        assert by_page() == [False, True]
    assert by_page() == [True, True]
    arrays.clear()
    assert not mapped_arrays._scattered


@pytest.mark.skipif(sys.platform != "linux", reason="containers are Linux's")
@pytest.mark.parametrize(
    ("groups", "file"),
    [
        ("0::/\n", "memory.max"),
        ("0::/job/step\n", "job/step/memory.max"),
        ("0::/job/step\n", "job/memory.max"),
        ("0::/outside/of/the/container\n", "memory.max"),
        ("7:cpu,cpuacct:/fast\n4:hugetlb,memory:/job\n0::/\n", "memory/job/memory.limit_in_bytes"),
        ("4:memory:/docker/2b:7\n", "memory/memory.limit_in_bytes"),
        ("\n5\n4:memory:/caf\udce9\n", "memory/memory.limit_in_bytes"),
    ],
)
def test_the_memory_of_a_container_is_its_limit(
    groups: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, path in (("OWN_GROUPS", tmp_path / "own"), ("GROUPS", tmp_path / "groups")):
        monkeypatch.setattr(mapped_arrays, name, path)
    of_machine = memory_size()
    total = next(
        line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal")
    )
    assert of_machine == pytest.approx(1024 * int(total.split()[1]), rel=0.01)
    (tmp_path / "own").write_bytes(groups.encode(errors="surrogateescape"))
    limit = tmp_path / "groups" / file
    limit.parent.mkdir(parents=True)
    for text, expected in (("max\n", of_machine), ("1048576\n", 1 << 20), (f"{1 << 60}\n", of_machine)):
        limit.write_text(text)
        assert memory_size() == expected
