"""Cells of result tables."""

from __future__ import annotations

import pytest

from contig.tasks.tables import event_count, few_notes


@pytest.mark.parametrize(
    ("events", "cell"), [(0, "0"), (1, "1*"), (99, "99*"), (100, "100"), (123_456, "123,456")]
)
def test_few_events_are_marked_and_explained(events: int, cell: str) -> None:
    assert event_count(events) == cell
    notes = few_notes([("model", "50.00", "7,000"), ("model", "50.00", cell)])
    assert len(notes) == cell.endswith("*")
