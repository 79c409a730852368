"""How moments of a stream become places along an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

from contig.data.clock import TimeSpan

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SECOND, MINUTE, HOUR, DAY, YEAR = 1.0, 60.0, 3600.0, 86_400.0, 31_557_600.0


class TimeAxis(NamedTuple):
    """How seconds since the first event become positions: days since 1970 for dates, else any unit."""

    start: float
    unit: float
    label: str

    def at(self, seconds: float) -> float:
        return self.start + seconds / self.unit


def time_axis(time: TimeSpan, span: float | None = None) -> TimeAxis:
    """The axis for ``span`` seconds of the stream, all of it by default."""
    if time.unix:
        return TimeAxis(time.first / time.per_second / DAY, DAY, "")
    span = time.span / time.per_second if span is None else span
    units = ((YEAR, "years"), (DAY, "days"), (HOUR, "hours"), (MINUTE, "minutes"))
    unit, name = next((u for u in units if span >= 3 * u[0]), (SECOND, "seconds"))
    return TimeAxis(0.0, unit, f"{name} since the first event")


def set_dates(axes: Axes) -> None:
    """Read the positions along x as days since 1970."""
    dates = AutoDateLocator()  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(dates)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(dates))  # type: ignore[no-untyped-call]
