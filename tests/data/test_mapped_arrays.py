"""Mapped arrays read as their files do, grow in memory alone, and use huge pages if they are small enough."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from support.memory_flags import asks_for_huge_pages, has_huge_pages, is_read_by_page

from contig.data import mapped_arrays
from contig.data.mapped_arrays import HUGE_PAGE, MEMORY_LIMIT, map_growing, map_private, memory_size


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


@pytest.mark.skipif(sys.platform != "linux", reason="containers are Linux's")
def test_the_memory_of_a_container_is_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = tmp_path / MEMORY_LIMIT.name
    monkeypatch.setattr(mapped_arrays, "MEMORY_LIMIT", limit)
    of_machine = memory_size()
    total = next(
        line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal")
    )
    assert of_machine == pytest.approx(1024 * int(total.split()[1]), rel=0.01)
    for text, expected in (("max\n", of_machine), ("1048576\n", 1 << 20), (f"{1 << 60}\n", of_machine)):
        limit.write_text(text)
        assert memory_size() == expected
