"""The intervals of a path between a node's events."""

from __future__ import annotations

import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from contig.serve.paths import between


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], [(0, 9000)]),
        ([0, 9000, 9500], [(0, 9000)]),  # at the ends and outside
        ([4000], [(0, 4000), (4005, 9000)]),
        ([4000, 1000, 4000], [(0, 1000), (1003, 4000), (4005, 9000)]),
        ([4000, 4001], [(0, 4000), (4000.001, 4001), (4005, 9000)]),
    ],
)
def test_intervals_begin_just_after_an_event_and_end_at_the_next(
    events: list[int], expected: list[tuple[float, float]]
) -> None:
    assert between(0, 9000, events) == expected
