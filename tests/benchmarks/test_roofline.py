"""The least memory traffic of a step."""

from __future__ import annotations

from contig.benchmarks.roofline import least_bytes


def test_the_least_bytes_by_hand() -> None:
    # 5 states read and 2 written, of 3 floats and an id; 4 queries x 2 neighbors x (id, time);
    # 10 weights: weight, gradient and two moments, each read and written.
    sizes = {"distinct": 5, "written": 2, "queries": 4, "neighbors": 2, "dim": 3, "weights": 10}
    assert least_bytes(**sizes) == 7 * (12 + 8) + 4 * 2 * 16 + 10 * 4 * 2 * 4
