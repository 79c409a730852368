"""The overview of a stream."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
    DASHED,
    INK,
    INTERVAL_COLORS,
    SIDE_COLORS,
    SPLIT_COLORS,
    legend_above,
    new_figure,
)
from contig.plots.text import shorten, text_width
from contig.plots.time_axis import DAY, HOUR, MINUTE, SECOND, YEAR, label_dates, time_axis
from contig.wording import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Widths of bars over time that have a name: "per day", not "per 1.37 days".
PERIODS = (
    *(SECOND, 5.0, 10.0, 30.0, MINUTE, 5 * MINUTE, 10 * MINUTE, 30 * MINUTE),
    *(HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 30 * DAY, YEAR / 4, YEAR),
)
MAX_BARS = 200
PANEL_WIDTH = 4.4  # inches, of the narrower panels at least
LABEL_SIZE, TICK_GAP = 9.5, 0.06  # points, inches
INTERVAL_TICKS = {
    **{1e-6: "1 µs", 1e-3: "1 ms", SECOND: "1 s", 10.0: "10 s", MINUTE: "1 min", 10 * MINUTE: "10 min"},
    **{HOUR: "1 h", 6 * HOUR: "6 h", DAY: "1 d", 7 * DAY: "7 d", 30 * DAY: "30 d", YEAR: "1 y"},
    **{10 * YEAR: "10 y", 100 * YEAR: "100 y"},
}


def overview(stream: EventStream, summary: Summary, title: str) -> Figure:
    """Draw activity over time with the split, the degree distribution, and intervals between events.

    ``summary`` is that of the same stream. The bars of activity and of intervals count each event once.
    """
    with new_figure(11, 6.5, title, _facts(summary)) as figure:
        grid = figure.add_gridspec(2, 2, height_ratios=(1.0, 1.1))
        _draw_activity(figure.add_subplot(grid[0, :]), stream, summary)
        _draw_degrees(figure.add_subplot(grid[1, 0]), stream, summary)
        _draw_intervals(figure.add_subplot(grid[1, 1]), stream, summary)
    return figure


def _facts(summary: Summary) -> tuple[str, ...]:
    return (
        counted(summary.events, "event"),
        counted(summary.nodes, "node") + (", bipartite" if summary.bipartite else ""),
        duration(summary.time.span / summary.time.per_second),
        f"{summary.repeats.ratio:.0%} of events repeat a pair",
        f"{summary.ties.events / summary.events:.0%} share a timestamp",
    )


# --- activity ----------------------------------------------------------------------------------------


def _period(span: float) -> float:
    """Return the width of a bar in seconds, so that there are few enough bars."""
    if span < 20 * SECOND:
        return span / 40 or SECOND
    return next((p for p in PERIODS if span / p < MAX_BARS), span / MAX_BARS)


def _draw_activity(axes: Axes, stream: EventStream, summary: Summary) -> None:
    time, split = summary.time, summary.split
    seconds = (stream.t - stream.t[0]) / time.per_second
    period = _period(float(seconds[-1]))
    slot = (seconds // period).astype(np.int64)
    axis = time_axis(time)
    width = period / axis.unit
    left = axis.start + width * np.arange(slot[-1] + 1)
    parts = {"training": split.train, "validation": split.val, "test": split.test}
    counts, first = {}, 0
    for name, part in parts.items():
        label = f"{name} {part.events:,}"
        counts[label] = np.bincount(slot[first : first + part.events], minlength=len(left))
        first += part.events
    _stack_bars(axes, left, np.full(len(left), width), counts, [SPLIT_COLORS[name] for name in parts])
    for part in (split.val, split.test):
        if part.first is not None:
            axes.axvline(axis.position(part.first), color=INK, linewidth=1.0, linestyle=DASHED)
    axes.set_title(f"Events per {duration(period).removeprefix('1 ')}")
    axes.set_xlabel(axis.label)
    axes.set_xlim(axis.start, axis.start + width * len(left))
    axes.grid(axis="x", visible=False)
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    if axis.dates:
        label_dates(axes.xaxis)
    legend_above(axes, columns=3)


def _stack_bars(
    axes: Axes,
    left: NDArray[np.float64],
    width: NDArray[np.float64],
    counts: Mapping[str, NDArray[np.int64]],
    colors: Sequence[str],
) -> None:
    """Draw the counts by label as bars on top of each other; empty bars are left out."""
    below = np.zeros(len(left), dtype=np.int64)
    for (label, heights), color in zip(counts.items(), colors, strict=True):
        shown = heights > 0
        axes.bar(
            left[shown],
            heights[shown],
            width=0.94 * width[shown],
            bottom=below[shown],
            align="edge",
            color=color,
            linewidth=0,
            label=label,
        )
        below += heights


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
            color=SIDE_COLORS[name],
            linewidth=1.8,
            marker="o",
            markersize=2.4,
            label=f"{degrees.nodes:,} {name}: median {degrees.median:,.10g}, maximum {degrees.max:,}",
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_title("Degree distribution")
    axes.set_xlabel("events per node")
    axes.set_ylabel("nodes with at least as many")
    # The curves fall from the upper left; leave room above them for the legend.
    axes.set_xlim(0.85, max(d.max for _, d in sides.values()) * 1.4)
    axes.set_ylim(0.8, max(d.nodes for _, d in sides.values()) * 6)
    for axis in (axes.xaxis, axes.yaxis):
        low, high = axis.get_view_interval()
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 200 * low else (1.0,)))
        axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axis.set_minor_locator(NullLocator())
    axes.legend(loc="upper right")


def _at_least(counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the degrees that occur, ascending, and the number of nodes with at least each."""
    degree, nodes = np.unique(counts[counts > 0], return_counts=True)
    return degree, np.cumsum(nodes[::-1])[::-1]


# --- intervals ---------------------------------------------------------------------------------------


class _LogBins(NamedTuple):
    """Bars of equal width on a logarithmic axis, and a separate one at the left for zero."""

    low: float
    ratio: float  # of a bar's right edge to its left one
    bars: int

    @property
    def left(self) -> NDArray[np.float64]:
        """The left edges, starting with the zero bar."""
        return self.low * self.ratio ** np.array([-3.0, *range(self.bars)])

    @property
    def zero(self) -> float:
        return float(self.low * self.ratio**-2.5)

    def slot(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the bar of each value; bar 0 is for zero."""
        steps = np.log(np.where(values > 0, values, self.low) / self.low) / math.log(self.ratio)
        return np.where(values > 0, 1 + np.clip(steps, 0, self.bars - 1).astype(np.int64), 0)


def _log_bins(values: NDArray[np.float64]) -> _LogBins:
    positive = values[values > 0]
    low, high = (positive.min(), positive.max()) if len(positive) else (1.0, 1.0)
    decades = math.log10(high / low)
    # At most five per decade, so that integer seconds leave no gaps between 1, 2 and 3.
    bars = min(40, 1 + math.floor(5 * decades))
    return _LogBins(float(low), max(10 ** (decades / bars), 10**0.2), bars)


def _draw_intervals(axes: Axes, stream: EventStream, summary: Summary) -> None:
    per_second = summary.time.per_second
    dt = intervals(stream)
    sets = interval_sets(dt)
    bins = _log_bins(dt / per_second)
    slot = bins.slot(dt / per_second)
    width = bins.left * (bins.ratio - 1)
    counts = {
        f"_{number}": np.bincount(slot[sets == number], minlength=len(width))  # without a legend
        for number in range(len(INTERVAL_COLORS))
    }
    _stack_bars(axes, bins.left, width, counts, INTERVAL_COLORS)
    axes.set_xscale("log")
    quintiles = sorted({q / per_second for q in list(summary.intervals.quantiles.values())[:-1]})
    for interval in quintiles:
        axes.axvline(interval or bins.zero, color=INK, linewidth=0.9, linestyle=DASHED)
    axes.set_title("Time since the source's previous event")
    axes.set_xlabel(
        shorten(f"dashed: quintiles at {', '.join(map(duration, quintiles))}", PANEL_WIDTH, LABEL_SIZE)
    )
    axes.set_ylabel("events")
    axes.set_xlim(bins.left[0] / bins.ratio**0.5, bins.left[-1] * bins.ratio**1.5)
    _label_intervals(axes, bins)
    axes.grid(axis="x", visible=False)
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def _label_intervals(axes: Axes, bins: _LogBins) -> None:
    """Label as many of ``INTERVAL_TICKS`` as fit side by side."""
    low, high = axes.get_xlim()
    inches = PANEL_WIDTH / math.log(high / low)
    ticks = {bins.zero: "0"}
    for interval, name in INTERVAL_TICKS.items():
        last = max(ticks)
        room = inches * math.log(interval / last) - (_tick_width(name) + _tick_width(ticks[last])) / 2
        if bins.low <= interval <= bins.low * bins.ratio**bins.bars and room > TICK_GAP:
            ticks[interval] = name
    axes.xaxis.set_major_locator(FixedLocator(list(ticks)))
    axes.xaxis.set_major_formatter(FixedFormatter(list(ticks.values())))
    axes.xaxis.set_minor_locator(NullLocator())


def _tick_width(text: str) -> float:
    return text_width(text, LABEL_SIZE)
