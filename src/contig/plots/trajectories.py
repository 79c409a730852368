"""The trajectory of a node's embedding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator
from numpy.typing import NDArray

from contig.data.clock import duration
from contig.data.events import EventStream
from contig.data.summary import Summary
from contig.plots.style import DASHED, INK, INTERVAL_COLORS, SOFT, SPLIT_COLORS, legend_above, new_figure
from contig.plots.time_axis import TimeAxis, label_dates, time_axis
from contig.wording import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colorbar import Colorbar

    from contig.data.clock import TimeSpan

FEW_EVENTS = 12  # up to this many, the intervals between events are drawn equally wide


def trajectory(
    stream: EventStream,
    summary: Summary,
    node: int,
    times: NDArray[Any],
    embeddings: NDArray[np.float32],
    title: str,
) -> Figure:
    """Draw a node's embeddings ``[times, d]`` at ascending times: their path in the plane, and over time.

    ``node`` is the internal id, ``summary`` that of the stream. The plane is that of the first two
    principal components of the path. The node's events are marked. If there are only a few, the
    intervals between them are drawn equally wide, because some last seconds and others weeks.
    """
    time = summary.time
    events = stream.t[(stream.src == node) | (stream.dst == node)]
    events = events[(events >= times[0]) & (events <= times[-1])]
    axis = _choose_axis(time, times, events)
    path, at = _principal(embeddings), axis.positions(times)
    facts = (
        counted(len(events), "event"),
        duration((times[-1] - times[0]) / time.per_second),
        f"{len(times):,} points",
        f"path length {np.linalg.norm(np.diff(embeddings, axis=0), axis=1).sum():.3g}",
    )
    with new_figure(12, 5.2, title, facts) as figure:
        grid = figure.add_gridspec(2, 2, width_ratios=(1.08, 1.0))
        after = np.unique(
            np.searchsorted(times, events, side="right")
        )  # first point that has seen each event
        _draw_path(figure.add_subplot(grid[:, 0]), path, at, after, axis)
        distance, components = figure.add_subplot(grid[0, 1]), figure.add_subplot(grid[1, 1])
        _draw_distance(distance, at, embeddings)
        _draw_components(components, at, path)
        for axes in (distance, components):
            _mark_events(axes, axis.positions(events))
            axes.set_xlim(*_distinct(at[[0, -1]]))
            axis.label_ticks(axes)
        distance.tick_params(labelbottom=False)
        components.set_xlabel(axis.label)
    return figure


class _Time(NamedTuple):
    """The usual time axis."""

    axis: TimeAxis

    @property
    def label(self) -> str:
        return self.axis.label

    @property
    def bar_label(self) -> str:
        return self.axis.label

    def positions(self, times: NDArray[Any]) -> NDArray[np.float64]:
        return self.axis.positions(times)

    def label_ticks(self, axes: Axes) -> None:
        if self.axis.dates:
            label_dates(axes.xaxis)

    def label_bar(self, bar: Colorbar) -> None:
        if self.axis.dates:
            label_dates(bar.ax.yaxis)


class _Intervals(NamedTuple):
    """An axis on which the intervals between ``ends`` are equally wide."""

    ends: NDArray[Any]
    per_second: float
    label: str = "intervals between events"
    bar_label: str = "event"

    def positions(self, times: NDArray[Any]) -> NDArray[np.float64]:
        positions: NDArray[np.float64] = np.interp(times, self.ends, np.arange(len(self.ends)))
        return positions

    def label_ticks(self, axes: Axes) -> None:
        """Write the length of each interval below it, and draw a line at each event."""
        lengths = np.diff(self.ends) / self.per_second
        axes.xaxis.set_major_locator(FixedLocator((0.5 + np.arange(len(lengths))).tolist()))
        axes.xaxis.set_major_formatter(FixedFormatter([duration(length) for length in lengths]))
        axes.tick_params(axis="x", length=0, labelsize=8)
        for label in axes.get_xticklabels():
            label.set(rotation=35, rotation_mode="anchor", ha="right")
        axes.grid(axis="x", visible=False)
        for event in range(1, len(lengths)):
            axes.axvline(event, color=SOFT, linewidth=0.7, linestyle=DASHED, zorder=1)

    def label_bar(self, bar: Colorbar) -> None:
        bar.set_ticks(range(1, len(self.ends) - 1))


def _choose_axis(time: TimeSpan, times: NDArray[Any], events: NDArray[Any]) -> _Time | _Intervals:
    if 1 < len(events) <= FEW_EVENTS:
        return _Intervals(np.unique([times[0], *events, times[-1]]), time.per_second)
    return _Time(time_axis(time, (times[-1] - times[0]) / time.per_second))


class _Path(NamedTuple):
    """Principal components of a path, ``[times, 3]``, and each one's share of the variance."""

    points: NDArray[np.float64]
    shares: NDArray[np.float64]


def _principal(embeddings: NDArray[np.float32], count: int = 3) -> _Path:
    centered = embeddings.astype(np.float64) - embeddings.mean(axis=0, dtype=np.float64)
    left, strength, axes = np.linalg.svd(centered, full_matrices=False)
    # The sign of a component is arbitrary; fix it, so that the same path always looks the same.
    sign = np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])
    points, shares = left * strength * sign, strength**2 / max(float((strength**2).sum()), 1e-30)
    missing = max(count - len(strength), 0)
    return _Path(np.pad(points, ((0, 0), (0, missing)))[:, :count], np.pad(shares, (0, missing))[:count])


def _draw_path(
    axes: Axes,
    path: _Path,
    at: NDArray[np.float64],
    after: NDArray[np.int64],
    axis: _Time | _Intervals,
) -> None:
    x, y = path.points[:, 0], path.points[:, 1]
    steps = np.stack([path.points[:-1, :2], path.points[1:, :2]], axis=1)
    line = LineCollection(
        list(steps), cmap="viridis", array=(at[:-1] + at[1:]) / 2, linewidth=1.3, alpha=0.75
    )
    axes.add_collection(line)
    axes.scatter(x, y, c=at, cmap="viridis", s=9, zorder=3)
    _mark_points_after_events(axes, path.points[after[after < len(at)], :2])
    legend_above(axes)
    for row, name, offset in ((0, "start", (8, 8)), (-1, "end", (8, -15))):
        _name_point(axes, (x[row], y[row]), name, offset)
    axes.set_title("Path of the embedding")
    axes.set_xlabel(f"component 1 ({path.shares[0]:.0%} of the variance)")
    axes.set_ylabel(f"component 2 ({path.shares[1]:.0%})")
    axes.margins(0.08)
    if path.shares[0] < 16 * path.shares[1]:  # otherwise the path would look like a line
        axes.set_aspect("equal", adjustable="datalim")  # equal scales, so that distances can be compared
    bar = axes.figure.colorbar(line, ax=axes, shrink=0.85, pad=0.02)
    bar.outline.set_visible(False)
    line.set_clim(*_distinct(at[[0, -1]]))
    bar.set_label(axis.bar_label)
    axis.label_bar(bar)


def _mark_points_after_events(axes: Axes, points: NDArray[np.float64]) -> None:
    axes.scatter(
        points[:, 0],
        points[:, 1],
        s=42,
        marker="D",
        facecolor="none",
        edgecolor=INK,
        linewidth=0.9,
        alpha=_opacity(len(points)),
        zorder=4,
        label="just after an event",
    )


def _name_point(axes: Axes, point: tuple[float, float], name: str, offset: tuple[float, float]) -> None:
    axes.plot(*point, "o", markersize=9, markerfacecolor="white", markeredgecolor=INK, zorder=4)
    axes.annotate(
        name,
        point,
        xytext=offset,
        textcoords="offset points",
        fontweight="bold",
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.2},
        zorder=6,
    )


def _distinct(ends: NDArray[np.float64]) -> tuple[float, float]:
    """Return the limits of an axis, moved apart if they are equal."""
    low, high = ends.tolist()
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _draw_distance(axes: Axes, at: NDArray[np.float64], embeddings: NDArray[np.float32]) -> None:
    distance = np.linalg.norm(embeddings - embeddings[0], axis=1)
    axes.fill_between(at, distance, color=INTERVAL_COLORS[1], alpha=0.35, linewidth=0)
    axes.plot(at, distance, color=INTERVAL_COLORS[3], linewidth=1.6)
    axes.set_ylim(0, max(float(distance.max()), 1e-6) * 1.12)
    axes.set_title("Distance from the start")


def _draw_components(axes: Axes, at: NDArray[np.float64], path: _Path) -> None:
    for number, color in enumerate(SPLIT_COLORS.values()):
        axes.plot(at, path.points[:, number], color=color, linewidth=1.5, label=f"{number + 1}")
    axes.set_title("Principal components over time")
    legend_above(axes, columns=3)


def _mark_events(axes: Axes, at: NDArray[np.float64]) -> None:
    """Mark every event at the bottom of the panel."""
    axes.vlines(
        at,
        0,
        0.07,
        transform=axes.get_xaxis_transform(),
        color=INK,
        linewidth=0.8,
        alpha=_opacity(len(at)),
        zorder=4,
    )


def _opacity(marks: int) -> float:
    """Return the opacity of a mark, lower if there are many."""
    return max(0.12, min(0.9, 40 / max(marks, 1)))
