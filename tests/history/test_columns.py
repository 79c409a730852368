"""Event columns: growth, counts before times, and comparable times."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from contig.history.columns import EventColumns, comparable_times

TIMES = [2, 2, 5, 9]


def columns() -> EventColumns:
    nodes = torch.arange(len(TIMES))
    return EventColumns(nodes, nodes + 1, torch.tensor(TIMES), torch.arange(12.0).view(4, 3))


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64], ids=str)
def test_events_before_a_time_are_counted_strictly(dtype: torch.dtype) -> None:
    times = torch.tensor([[1, 2], [3, 5], [6, 10]], dtype=dtype)
    expected = [[sum(t < x for t in TIMES) for x in row] for row in times.tolist()]
    assert columns().count_before(times).tolist() == expected


def test_appended_rows_follow_those_before() -> None:
    grown = columns()
    for t in range(10, 20):
        grown.append(
            src=torch.tensor([t]), dst=torch.tensor([0]), t=torch.tensor([t]), features=torch.full((1, 3), t)
        )
    assert grown.count == 14
    assert grown["t"].tolist() == [*TIMES, *range(10, 20)]
    assert grown["features"][:4].tolist() == torch.arange(12.0).view(4, 3).tolist()
    assert grown["features"][4:, 0].tolist() == [*range(10, 20)]
    assert len(grown.columns["t"]) <= 28  # doubled when full


@given(st.floats(), st.integers(-(2**53), 2**53))
def test_comparable_times_keep_the_order(time: float, event: int) -> None:
    """Python compares integers with floats exactly."""
    (converted,) = comparable_times(torch.tensor([time], dtype=torch.float64), torch.int64).tolist()
    assert (event < converted) == (event < time)
