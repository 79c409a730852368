"""Time axes: dates where the clock is known, otherwise time since the first event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from numpy.typing import NDArray

from contig.data.clock import TimeSpan

if TYPE_CHECKING:
    from matplotlib.axis import Axis

SECOND, MINUTE, HOUR, DAY, YEAR = 1.0, 60.0, 3600.0, 86_400.0, 31_557_600.0


class TimeAxis(NamedTuple):
    """Converts the times of a stream to positions on an axis.

    Positions are days since 1970 where ``dates`` is true, otherwise multiples of ``unit`` seconds.
    """

    first: float  # time of the first event, in the stream's unit
    per_second: float
    start: float  # position of the first event
    unit: float
    label: str
    dates: bool

    def positions(self, times: NDArray[Any]) -> NDArray[np.float64]:
        """Return the positions of times given in the stream's unit."""
        seconds: NDArray[np.float64] = (times - self.first) / self.per_second
        return self.start + seconds / self.unit

    def position(self, time: float) -> float:
        return float(self.positions(np.asarray(time)))


def time_axis(time: TimeSpan, span: float | None = None) -> TimeAxis:
    """Choose the axis for ``span`` seconds of a stream, by default all of it."""
    if time.unix:
        return TimeAxis(time.first, time.per_second, time.first / time.per_second / DAY, DAY, "", True)
    span = time.span / time.per_second if span is None else span
    units = ((YEAR, "years"), (DAY, "days"), (HOUR, "hours"), (MINUTE, "minutes"))
    unit, name = next((u for u in units if span >= 3 * u[0]), (SECOND, "seconds"))
    return TimeAxis(time.first, time.per_second, 0.0, unit, f"{name} since the first event", False)


def label_dates(axis: Axis) -> None:
    """Label positions that are days since 1970 with dates."""
    locator = AutoDateLocator()  # type: ignore[no-untyped-call]
    axis.set_major_locator(locator)
    axis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
