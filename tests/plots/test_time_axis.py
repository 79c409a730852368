"""Times are dates where the clock is known, otherwise they count from the first event."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.dates import num2date

from contig.data.clock import TimeSpan
from contig.plots.time_axis import time_axis

START = 1_600_000_000  # 13 September 2020, 12:26:40 UTC


@pytest.mark.parametrize("scale", [1, 1000, 1_000_000])
def test_unix_times_become_dates(scale: int) -> None:
    times = np.array([START, START + 86_400]) * scale
    axis = time_axis(TimeSpan.of(times))
    dates = [num2date(position) for position in axis.positions(times)]
    assert axis.dates
    assert [f"{date:%Y-%m-%d %H:%M:%S}" for date in dates] == ["2020-09-13 12:26:40", "2020-09-14 12:26:40"]


@pytest.mark.parametrize(
    ("span", "unit", "label"),
    [
        (100, 1, "seconds since the first event"),
        (600, 60, "minutes since the first event"),
        (4 * 3600, 3600, "hours since the first event"),
        (30 * 86_400, 86_400, "days since the first event"),
        (4 * 31_557_600, 31_557_600, "years since the first event"),
    ],
)
def test_the_unit_suits_the_span(span: int, unit: float, label: str) -> None:
    times = np.array([777, 777 + span // 2, 777 + span])
    axis = time_axis(TimeSpan.of(times))
    assert (axis.label, axis.dates) == (label, False)
    assert axis.positions(times) == pytest.approx([0, span // 2 / unit, span / unit])
    assert axis.position(777 + unit) == pytest.approx(1)


def test_the_span_can_be_a_part_of_the_stream() -> None:
    time = TimeSpan.of(np.array([0, 30 * 86_400]))
    assert time_axis(time, span=200).label == "minutes since the first event"
