"""The picture of a stream."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import (
    FixedFormatter,
    FixedLocator,
    LogLocator,
    MaxNLocator,
    NullLocator,
    StrMethodFormatter,
)
from numpy.typing import NDArray

from contig.data.clock import duration
from contig.data.events import EventStream
from contig.data.splits import interval_sets, intervals
from contig.data.summary import Summary
from contig.plots.style import (
    CUT_LINE,
    INK,
    PART_COLOURS,
    SET_COLOURS,
    SIDE_COLOURS,
    draw_heading,
    new_figure,
)
from contig.plots.times import DAY, HOUR, MINUTE, SECOND, YEAR, set_dates, time_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Bars over time are as wide as something people say: "per day", not "per 1.37 days".
PERIODS = (
    *(SECOND, 5.0, 10.0, 30.0, MINUTE, 5 * MINUTE, 10 * MINUTE, 30 * MINUTE),
    *(HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 30 * DAY, YEAR / 4, YEAR),
)
MOST_BARS = 200
INTERVAL_TICKS = {
    **{1e-6: "1 µs", 1e-3: "1 ms", SECOND: "1 s", 10.0: "10 s", MINUTE: "1 min", 10 * MINUTE: "10 min"},
    **{HOUR: "1 h", 6 * HOUR: "6 h", DAY: "1 d", 7 * DAY: "7 d", 30 * DAY: "30 d", YEAR: "1 y"},
    **{10 * YEAR: "10 y", 100 * YEAR: "100 y"},
}


def overview(stream: EventStream, summary: Summary, title: str) -> Figure:
    """One figure of a stream: activity over time with the split, degrees, intervals.

    ``summary`` is that of the same stream. In the bars over time and in those of the intervals
    every event is counted exactly once.
    """
    with new_figure(11, 7.4) as figure:
        grid = figure.add_gridspec(3, 2, height_ratios=(0.2, 1.0, 1.1))
        draw_heading(figure.add_subplot(grid[0, :]), title, _facts(summary))
        _draw_activity(figure.add_subplot(grid[1, :]), stream, summary)
        _draw_degrees(figure.add_subplot(grid[2, 0]), stream, summary)
        _draw_intervals(figure.add_subplot(grid[2, 1]), stream, summary)
    return figure


def _facts(summary: Summary) -> tuple[str, ...]:
    return (
        f"{summary.events:,} events",
        f"{summary.nodes:,} nodes" + (" in two sides" if summary.bipartite else ""),
        duration(summary.time.span / summary.time.per_second),
        f"{summary.repeats.ratio:.0%} of the events repeat a pair",
        f"{summary.ties.events / summary.events:.0%} share their time",
    )


# --- activity ----------------------------------------------------------------------------------------


def _period(span: float) -> float:
    """The width of a bar in seconds: the shortest that leaves few enough bars."""
    if span < 20 * SECOND:
        return span / 40 or SECOND
    return next((p for p in PERIODS if span / p < MOST_BARS), span / MOST_BARS)


def _draw_activity(axes: Axes, stream: EventStream, summary: Summary) -> None:
    time = summary.time
    seconds = (stream.t - stream.t[0]) / time.per_second
    period = _period(float(seconds[-1]))
    slot = (seconds // period).astype(np.int64)
    axis = time_axis(time)
    width = period / axis.unit
    left = axis.start + width * np.arange(slot[-1] + 1)
    below = np.zeros(len(left), dtype=np.int64)
    split, first = summary.split, 0
    for name, part in {"training": split.train, "validation": split.val, "test": split.test}.items():
        counts = np.bincount(slot[first : first + part.events], minlength=len(left))
        some = counts > 0
        axes.bar(
            left[some],
            counts[some],
            width=width * 0.94,
            bottom=below[some],
            align="edge",
            color=PART_COLOURS[name],
            linewidth=0,
            label=f"{name} {part.events:,}",
        )
        below += counts
        first += part.events
    for part in (split.val, split.test):
        if part.first is not None:
            cut = axis.at((part.first - time.first) / time.per_second)
            axes.axvline(cut, color=INK, linewidth=1.0, linestyle=CUT_LINE)
    axes.set_title(f"Events per {duration(period).removeprefix('1 ')}")
    axes.set_xlabel(axis.label)
    axes.set_xlim(axis.start, axis.start + width * len(left))
    axes.grid(axis="x", visible=False)
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    if time.unix:
        set_dates(axes)
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, borderaxespad=0.3)


# --- degrees -----------------------------------------------------------------------------------------


def _draw_degrees(axes: Axes, stream: EventStream, summary: Summary) -> None:
    sides = {
        "sources": (stream.src, summary.degrees.sources),
        "destinations": (stream.dst, summary.degrees.destinations),
    }
    for name, (nodes, degrees) in sides.items():
        degree, at_least = _at_least(np.bincount(nodes))
        axes.plot(
            degree,
            at_least,
            drawstyle="steps-pre",
            color=SIDE_COLOURS[name],
            linewidth=1.8,
            marker="o",
            markersize=2.4,
            label=f"{degrees.nodes:,} {name}: median {degrees.median:,.10g}, most {degrees.max:,}",
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_title("Degrees: nodes with at least so many events")
    axes.set_xlabel("events of a node")
    # The curves fall from the upper left, so that above them there is room for the legend.
    axes.set_xlim(0.85, max(d.max for _, d in sides.values()) * 1.4)
    axes.set_ylim(0.8, max(d.nodes for _, d in sides.values()) * 6)
    for axis in (axes.xaxis, axes.yaxis):
        low, high = axis.get_view_interval()
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 200 * low else (1.0,)))
        axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axis.set_minor_locator(NullLocator())
    axes.legend(loc="upper right")


def _at_least(counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The degrees that occur, ascending, and how many nodes reach each."""
    degree, nodes = np.unique(counts[counts > 0], return_counts=True)
    return degree, np.cumsum(nodes[::-1])[::-1]


# --- intervals ---------------------------------------------------------------------------------------


class _LogBins(NamedTuple):
    """Bars of equal width on a logarithmic axis, and one apart at its left for zero."""

    low: float
    ratio: float  # of a bar's right edge to its left one
    bars: int

    @property
    def left(self) -> NDArray[np.float64]:
        """Left edges, that of the zero bar first."""
        return self.low * self.ratio ** np.array([-3.0, *range(self.bars)])

    @property
    def zero(self) -> float:
        return float(self.low * self.ratio**-2.5)

    def slot(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Which bar each value falls in; 0 is the bar of zero."""
        steps = np.log(np.where(values > 0, values, self.low) / self.low) / math.log(self.ratio)
        return np.where(values > 0, 1 + np.clip(steps, 0, self.bars - 1).astype(np.int64), 0)


def _log_bins(values: NDArray[np.float64]) -> _LogBins:
    positive = values[values > 0]
    low, high = (positive.min(), positive.max()) if len(positive) else (1.0, 1.0)
    decades = math.log10(high / low)
    # No more than five per decade, so that whole seconds leave no gaps between 1, 2 and 3.
    bars = min(40, 1 + math.floor(5 * decades))
    return _LogBins(float(low), max(10 ** (decades / bars), 10**0.2), bars)


def _draw_intervals(axes: Axes, stream: EventStream, summary: Summary) -> None:
    per_second = summary.time.per_second
    dt = intervals(stream)
    sets = interval_sets(dt)
    bins = _log_bins(dt / per_second)
    slot = bins.slot(dt / per_second)
    width = bins.left * (bins.ratio - 1) * 0.94
    below = np.zeros(len(width), dtype=np.int64)
    for number, colour in enumerate(SET_COLOURS):
        counts = np.bincount(slot[sets == number], minlength=len(width))
        some = counts > 0
        axes.bar(
            bins.left[some],
            counts[some],
            width=width[some],
            bottom=below[some],
            align="edge",
            color=colour,
            linewidth=0,
        )
        below += counts
    axes.set_xscale("log")
    axes.set_ylim(0, below.max() * 1.4)  # room for what is written along the cuts
    _draw_cuts(axes, bins, {s: q / per_second for s, q in summary.intervals.quantiles.items()})
    axes.set_title("Time since the source last appeared")
    axes.set_ylabel("events")
    axes.set_xlim(bins.left[0] / bins.ratio**0.5, bins.left[-1] * bins.ratio**1.5)
    _label_intervals(axes, bins)
    axes.grid(axis="x", visible=False)
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def _draw_cuts(axes: Axes, bins: _LogBins, quantiles: dict[str, float]) -> None:
    """A line at each quantile but the last, with the share of the events that end there."""
    shares = {
        cut: f"{float(share):.0%}" for share, cut in list(quantiles.items())[:-1]
    }  # equal cuts: the last
    for cut, share in shares.items():
        place = cut or bins.zero
        axes.axvline(place, color=INK, linewidth=0.9, linestyle=CUT_LINE)
        axes.annotate(
            f"{share}: {duration(cut)}",
            (place, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(2, -2),
            textcoords="offset points",
            rotation=90,
            va="top",
            fontsize=8,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.2},
        )


def _label_intervals(axes: Axes, bins: _LogBins) -> None:
    high = bins.low * bins.ratio**bins.bars
    ticks = {bins.zero: "0"} | {x: name for x, name in INTERVAL_TICKS.items() if bins.low <= x <= high}
    axes.xaxis.set_major_locator(FixedLocator(list(ticks)))
    axes.xaxis.set_major_formatter(FixedFormatter(list(ticks.values())))
    axes.xaxis.set_minor_locator(NullLocator())
