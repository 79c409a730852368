"""Counts and sizes as messages write them."""

from __future__ import annotations

import pytest

from contig.wording import counted, in_bytes


def test_counts_have_their_nouns() -> None:
    assert [counted(n, "event") for n in (0, 1, 1200)] == ["0 events", "1 event", "1,200 events"]
    assert counted(2, "process", "processes") == "2 processes"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 kB"),
        (12_400, "12 kB"),
        (1e6, "1 MB"),
        (900e6, "900 MB"),
        (2.5e9, "2.50 GB"),
        (1e12, "1,000.00 GB"),
    ],
)
def test_sizes_have_units(number: float, text: str) -> None:
    assert in_bytes(number) == text
