"""Pictures of streams and of what was learned from them, drawn without a display."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import (
    FixedFormatter,
    FixedLocator,
    LogLocator,
    MaxNLocator,
    NullLocator,
    StrMethodFormatter,
)
from numpy.typing import NDArray

from contig.errors import ConfigError, unknown
from contig.events import EventStream
from contig.splits import interval_sets, intervals
from contig.summary import Summary
from contig.times import TimeSpan, duration

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = ("png", "svg", "pdf")
SECOND, MINUTE, HOUR, DAY, YEAR = 1.0, 60.0, 3600.0, 86_400.0, 31_557_600.0

INK, SOFT, GRID = "#1f2933", "#616e7c", "#e4e7eb"
PART_COLOURS = {"training": "#2f5d8a", "validation": "#eda63a", "test": "#cc4b37"}
SIDE_COLOURS = {"sources": "#2f5d8a", "destinations": "#cc4b37"}
CUT_LINE = (0, (4, 3))
SET_COLOURS = ("#cfe8dc", "#93cfbb", "#4dab9b", "#21797c", "#0f4757")  # short intervals to long ones
STYLE: dict[Any, Any] = {
    "font.size": 9.5,
    "text.color": INK,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": SOFT,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "svg.fonttype": "none",
}

# Bars over time are as wide as something people say: "per day", not "per 1.37 days".
PERIODS = (
    *(SECOND, 5.0, 10.0, 30.0, MINUTE, 5 * MINUTE, 10 * MINUTE, 30 * MINUTE),
    *(HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 30 * DAY, YEAR / 4, YEAR),
)
MOST_BARS = 200
FEW_EVENTS = 12  # whose intervals a trajectory draws equally wide
INTERVAL_TICKS = {
    **{1e-6: "1 µs", 1e-3: "1 ms", SECOND: "1 s", 10.0: "10 s", MINUTE: "1 min", 10 * MINUTE: "10 min"},
    **{HOUR: "1 h", 6 * HOUR: "6 h", DAY: "1 d", 7 * DAY: "7 d", 30 * DAY: "30 d", YEAR: "1 y"},
    **{10 * YEAR: "10 y", 100 * YEAR: "100 y"},
}


def check_target(path: str | os.PathLike[str]) -> Path:
    """The path of a picture to be written, refused now rather than after the work is done."""
    target = Path(path).expanduser()
    if target.suffix[1:].lower() not in FORMATS:
        raise ConfigError(
            f"{target}: {unknown('picture format', target.suffix[1:], FORMATS)} Let the name end in .png."
        )
    if target.is_dir() or not target.parent.is_dir():
        problem = "is a folder" if target.is_dir() else f"lies in {target.parent}, which is not a folder"
        raise ConfigError(f"{target} {problem}; name a file in a folder that exists.")
    return target


def save(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure in the format its name ends in (png, svg, pdf), whole or not at all."""
    target = check_target(path)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with warnings.catch_warnings():
            # A title may hold letters our font lacks; they show as boxes, and that is no failure.
            warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
            figure.savefig(part, format=target.suffix[1:].lower(), dpi=160)
        part.replace(target)
    except OSError as error:
        raise ConfigError(
            f"{target}: the picture cannot be written ({error}); name another place."
        ) from error
    finally:
        part.unlink(missing_ok=True)


def overview(stream: EventStream, summary: Summary, title: str) -> Figure:
    """One figure of a stream: activity over time with the split, degrees, intervals.

    ``summary`` is that of the same stream. In the bars over time and in those of the intervals
    every event is counted exactly once.
    """
    with _figure(11, 7.4) as figure:
        grid = figure.add_gridspec(3, 2, height_ratios=(0.2, 1.0, 1.1))
        _draw_heading(figure.add_subplot(grid[0, :]), title, _facts(summary))
        _draw_activity(figure.add_subplot(grid[1, :]), stream, summary)
        _draw_degrees(figure.add_subplot(grid[2, 0]), stream, summary)
        _draw_intervals(figure.add_subplot(grid[2, 1]), stream, summary)
    return figure


@contextmanager
def _figure(width: float, height: float) -> Iterator[Figure]:
    """An empty figure in our style, which holds while it is drawn on."""
    with matplotlib.rc_context(STYLE):
        spacing = ConstrainedLayoutEngine(
            w_pad=0.12, h_pad=0.09, wspace=0.04, hspace=0.05, rect=(0, 0, 1, 0.975)
        )
        yield Figure(figsize=(width, height), layout=spacing, facecolor="white")


def _facts(summary: Summary) -> tuple[str, ...]:
    return (
        f"{summary.events:,} events",
        f"{summary.nodes:,} nodes" + (" in two sides" if summary.bipartite else ""),
        duration(summary.time.span / summary.time.per_second),
        f"{summary.repeats.ratio:.0%} of the events repeat a pair",
        f"{summary.ties.events / summary.events:.0%} share their time",
    )


def _draw_heading(axes: Axes, title: str, facts: Sequence[str]) -> None:
    axes.set_axis_off()
    at_top_left: dict[str, Any] = {
        "transform": axes.transAxes,
        "va": "top",
        "ha": "left",
        "parse_math": False,
    }
    axes.text(0.0, 1.25, title, fontsize=18, fontweight="bold", **at_top_left)
    axes.text(0.0, 0.35, "   ·   ".join(facts), fontsize=10.5, color=SOFT, **at_top_left)


# --- activity ----------------------------------------------------------------------------------------


class _TimeAxis(NamedTuple):
    """How seconds since the first event become positions: days since 1970 for dates, else any unit."""

    start: float
    unit: float
    label: str

    def at(self, seconds: float) -> float:
        return self.start + seconds / self.unit


def _time_axis(time: TimeSpan, span: float | None = None) -> _TimeAxis:
    """The axis for ``span`` seconds of the stream, all of it by default."""
    if time.unix:
        return _TimeAxis(time.first / time.per_second / DAY, DAY, "")
    span = time.span / time.per_second if span is None else span
    units = ((YEAR, "years"), (DAY, "days"), (HOUR, "hours"), (MINUTE, "minutes"))
    unit, name = next((u for u in units if span >= 3 * u[0]), (SECOND, "seconds"))
    return _TimeAxis(0.0, unit, f"{name} since the first event")


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
    axis = _time_axis(time)
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
        _date(axes)
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, borderaxespad=0.3)


def _date(axes: Axes) -> None:
    """Read the positions along x as days since 1970."""
    dates = AutoDateLocator()  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(dates)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(dates))  # type: ignore[no-untyped-call]


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


# --- learning ----------------------------------------------------------------------------------------


def learning_curve(log: Sequence[Mapping[str, Any]], title: str) -> Figure:
    """Loss and validation AP by epoch, the best epoch marked.

    ``log`` has a row per epoch: ``epoch`` (from 1), ``loss``, ``val_ap`` and ``val_ap_inductive``.
    """
    epochs = [row["epoch"] for row in log]
    best = max(log, key=lambda row: row["val_ap"])
    facts = (f"best epoch {best['epoch']} of {len(log)}", f"validation AP {100 * best['val_ap']:.2f}")
    with _figure(10.5, 4.4) as figure:
        grid = figure.add_gridspec(2, 2, height_ratios=(0.16, 1.0))
        _draw_heading(figure.add_subplot(grid[0, :]), title, facts)
        loss, precision = figure.add_subplot(grid[1, 0]), figure.add_subplot(grid[1, 1])
        _draw_epochs(loss, epochs, [row["loss"] for row in log], PART_COLOURS["training"], "")
        loss.set_title("Training loss")
        for key, name, colour in (
            ("val_ap", "transductive", PART_COLOURS["validation"]),
            ("val_ap_inductive", "inductive", PART_COLOURS["test"]),
        ):
            _draw_epochs(precision, epochs, [100 * row[key] for row in log], colour, name)
        precision.set_title("Validation AP, %")
        precision.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, borderaxespad=0.3)
        precision.plot(
            best["epoch"], 100 * best["val_ap"], "o", markersize=11, markerfacecolor="none", color=INK
        )
        for axes in (loss, precision):
            axes.axvline(best["epoch"], color=INK, linewidth=1.0, linestyle=CUT_LINE)
            axes.set_xlabel("epoch")
            axes.set_xlim(0.5, max(epochs) + 0.5)
            axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    return figure


def _draw_epochs(axes: Axes, epochs: Sequence[int], values: Sequence[float], colour: str, name: str) -> None:
    axes.plot(epochs, values, color=colour, linewidth=1.8, marker="o", markersize=4, label=name)


# --- trajectories ------------------------------------------------------------------------------------


def trajectory(
    stream: EventStream,
    summary: Summary,
    node: int,
    times: NDArray[Any],
    embeddings: NDArray[np.float32],
    title: str,
) -> Figure:
    """A node's embeddings ``[times, d]`` over ascending times: its path in the plane, and in time.

    ``node`` is the internal id, ``summary`` that of the stream. The plane is spanned by the path's
    first two principal components. The node's events in between are marked; where they are few, time
    runs from event to event, all intervals as wide as each other, because some are seconds and some weeks.
    """
    time = summary.time
    axis = _time_axis(time, (times[-1] - times[0]) / time.per_second)
    path = _principal(embeddings)
    met = stream.t[(stream.src == node) | (stream.dst == node)]
    met = met[(met >= times[0]) & (met <= times[-1])]
    ends = np.unique([times[0], *met, times[-1]]) if 1 < len(met) <= FEW_EVENTS else None
    if ends is not None:
        axis = _TimeAxis(0.0, 1.0, "intervals between events")

    def place(t: NDArray[Any]) -> NDArray[np.float64]:
        if ends is not None:
            warped: NDArray[np.float64] = np.interp(t, ends, np.arange(len(ends)))
            return warped
        seconds: NDArray[np.float64] = (t - time.first) / time.per_second
        return axis.start + seconds / axis.unit

    moved = np.linalg.norm(np.diff(embeddings, axis=0), axis=1).sum()
    facts = (
        f"{len(met):,} events",
        duration((times[-1] - times[0]) / time.per_second),
        f"{len(times):,} points",
        f"a way of {moved:.3g} in all",
    )
    with _figure(12, 6.0) as figure:
        grid = figure.add_gridspec(3, 2, height_ratios=(0.16, 1.0, 1.0), width_ratios=(1.08, 1.0))
        _draw_heading(figure.add_subplot(grid[0, :]), title, facts)
        after = np.unique(np.searchsorted(times, met, side="right"))  # first point that knows of each event
        _draw_path(figure.add_subplot(grid[1:, 0]), path, place(times), after, axis)
        distance, parts = figure.add_subplot(grid[1, 1]), figure.add_subplot(grid[2, 1])
        _draw_distance(distance, place(times), embeddings)
        _draw_components(parts, place(times), path)
        for axes in (distance, parts):
            _mark_events(axes, place(met))
            axes.set_xlim(*_wide(place(times)[[0, -1]]))
            if ends is not None:
                _label_gaps(axes, np.diff(ends) / time.per_second)
            elif time.unix:
                _date(axes)
        distance.tick_params(labelbottom=False)
        parts.set_xlabel(axis.label if ends is None else "from event to event, and how long that took")
    return figure


class _Path(NamedTuple):
    """Principal components of a path, ``[times, 3]``, and the share of the movement in each."""

    points: NDArray[np.float64]
    shares: NDArray[np.float64]


def _principal(embeddings: NDArray[np.float32], count: int = 3) -> _Path:
    centred = embeddings.astype(np.float64) - embeddings.mean(axis=0, dtype=np.float64)
    left, strength, axes = np.linalg.svd(centred, full_matrices=False)
    # The sign of a component is free; fix it, so that the same path always looks the same.
    sign = np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])
    points, shares = left * strength * sign, strength**2 / max(float((strength**2).sum()), 1e-30)
    missing = max(count - len(strength), 0)
    return _Path(np.pad(points, ((0, 0), (0, missing)))[:, :count], np.pad(shares, (0, missing))[:count])


def _draw_path(
    axes: Axes, path: _Path, at: NDArray[np.float64], after: NDArray[np.int64], axis: _TimeAxis
) -> None:
    x, y = path.points[:, 0], path.points[:, 1]
    steps = np.stack([path.points[:-1, :2], path.points[1:, :2]], axis=1)
    line = LineCollection(
        list(steps), cmap="viridis", array=(at[:-1] + at[1:]) / 2, linewidth=1.3, alpha=0.75
    )
    axes.add_collection(line)
    axes.scatter(x, y, c=at, cmap="viridis", s=9, zorder=3)
    after = after[after < len(at)]
    axes.scatter(
        x[after],
        y[after],
        s=42,
        marker="D",
        facecolor="none",
        edgecolor=INK,
        linewidth=0.9,
        alpha=_strength(len(after)),
        zorder=4,
        label="just after an event",
    )
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.3)
    for row, name, offset in ((0, "start", (8, 8)), (-1, "end", (8, -15))):
        axes.plot(x[row], y[row], "o", markersize=9, markerfacecolor="white", markeredgecolor=INK, zorder=4)
        axes.annotate(
            name,
            (x[row], y[row]),
            xytext=offset,
            textcoords="offset points",
            fontweight="bold",
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.2},
            zorder=6,
        )
    axes.set_title("The path, seen from its widest side")
    axes.set_xlabel(f"component 1 ({path.shares[0]:.0%} of the movement)")
    axes.set_ylabel(f"component 2 ({path.shares[1]:.0%})")
    axes.margins(0.08)
    if path.shares[0] < 16 * path.shares[1]:  # else the path would be a mere line
        axes.set_aspect("equal", adjustable="datalim")  # one scale, so that distances can be compared
    bar = axes.figure.colorbar(line, ax=axes, shrink=0.85, pad=0.02)
    bar.outline.set_visible(False)
    line.set_clim(*_wide(at[[0, -1]]))
    bar.set_label(axis.label)
    if not axis.label:
        dates = AutoDateLocator()  # type: ignore[no-untyped-call]
        bar.ax.yaxis.set_major_locator(dates)
        bar.ax.yaxis.set_major_formatter(ConciseDateFormatter(dates))  # type: ignore[no-untyped-call]


def _label_gaps(axes: Axes, seconds: NDArray[np.float64]) -> None:
    """Write how long each interval is under it, and draw a line at each event."""
    axes.xaxis.set_major_locator(FixedLocator((0.5 + np.arange(len(seconds))).tolist()))
    axes.xaxis.set_major_formatter(FixedFormatter([duration(gap) for gap in seconds]))
    axes.tick_params(axis="x", length=0, labelsize=8)
    for label in axes.get_xticklabels():
        label.set(rotation=35, rotation_mode="anchor", ha="right")
    axes.grid(axis="x", visible=False)
    for event in range(1, len(seconds)):
        axes.axvline(event, color=SOFT, linewidth=0.7, linestyle=CUT_LINE, zorder=1)


def _wide(ends: NDArray[np.float64]) -> tuple[float, float]:
    """Two ends that are not the same, as an axis needs them."""
    low, high = ends.tolist()
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _draw_distance(axes: Axes, at: NDArray[np.float64], embeddings: NDArray[np.float32]) -> None:
    far = np.linalg.norm(embeddings - embeddings[0], axis=1)
    axes.fill_between(at, far, color=SET_COLOURS[1], alpha=0.35, linewidth=0)
    axes.plot(at, far, color=SET_COLOURS[3], linewidth=1.6)
    axes.set_ylim(0, max(float(far.max()), 1e-6) * 1.12)
    axes.set_title("Distance from where it began")


def _draw_components(axes: Axes, at: NDArray[np.float64], path: _Path) -> None:
    for number, colour in enumerate(PART_COLOURS.values()):
        axes.plot(at, path.points[:, number], color=colour, linewidth=1.5, label=f"{number + 1}")
    axes.set_title("Components over time")
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, borderaxespad=0.3)


def _mark_events(axes: Axes, at: NDArray[np.float64]) -> None:
    """A stroke at the foot of the panel for every event."""
    axes.vlines(
        at,
        0,
        0.07,
        transform=axes.get_xaxis_transform(),
        color=INK,
        linewidth=0.8,
        alpha=_strength(len(at)),
        zorder=4,
    )


def _strength(marks: int) -> float:
    """The opacity of a mark: many may lie over each other."""
    return max(0.12, min(0.9, 40 / max(marks, 1)))
