"""The picture of one node's way through time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator
from numpy.typing import NDArray

from contig.data.clock import duration
from contig.data.events import EventStream
from contig.data.summary import Summary
from contig.plots.style import CUT_LINE, INK, PART_COLOURS, SET_COLOURS, SOFT, draw_heading, new_figure
from contig.plots.times import TimeAxis, set_dates, time_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEW_EVENTS = 12  # whose intervals are drawn equally wide


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
    axis = time_axis(time, (times[-1] - times[0]) / time.per_second)
    path = _principal(embeddings)
    met = stream.t[(stream.src == node) | (stream.dst == node)]
    met = met[(met >= times[0]) & (met <= times[-1])]
    ends = np.unique([times[0], *met, times[-1]]) if 1 < len(met) <= FEW_EVENTS else None
    if ends is not None:
        axis = TimeAxis(0.0, 1.0, "intervals between events")

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
    with new_figure(12, 6.0) as figure:
        grid = figure.add_gridspec(3, 2, height_ratios=(0.16, 1.0, 1.0), width_ratios=(1.08, 1.0))
        draw_heading(figure.add_subplot(grid[0, :]), title, facts)
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
                set_dates(axes)
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
    axes: Axes, path: _Path, at: NDArray[np.float64], after: NDArray[np.int64], axis: TimeAxis
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
