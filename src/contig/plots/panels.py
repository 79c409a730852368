"""Panels of curves, and of numbers compared with those of a paper."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from contig.plots.style import DASHED, GRID, INK, SOFT, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The first color is for the subject of a figure; a name has one color throughout a figure.
COLORS = (
    *("#cc4b37", "#2f5d8a", "#eda63a", "#21797c", "#7b5aa6", "#8c6d46"),
    *("#d47fa6", "#5b8c3e", "#4f6272", "#2aa7c4", "#a59a1c", "#3f3fa0"),
)
QUIET = "#a9b2bc"
MARKERS = "osD^vPX<>h*d"


class Curve(NamedTuple):
    """Points with their standard deviations; missing numbers are NaN.

    A quiet curve is drawn in gray behind the others; if it is dashed as well, its points have no marks.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    std: Sequence[float]
    quiet: bool = False
    dashed: bool = False


class Panel(NamedTuple):
    """Curves over one pair of axes; ``ticks`` are the labels of a categorical x axis."""

    title: str
    curves: Sequence[Curve]
    x_label: str
    y_label: str
    ticks: Sequence[str] = ()
    log: bool = False


class Pair(NamedTuple):
    """A number with its standard deviation, and that of the paper; missing ones are NaN."""

    name: str
    ours: float
    std: float
    paper: float
    paper_std: float


def curves(title: str, facts: Sequence[str], panels: Sequence[Panel], across: int = 3) -> Figure:
    """Draw panels, ``across`` of them in a row, with one legend; without a title there is no heading."""
    styles = _styles([curve for panel in panels for curve in panel.curves])
    with _panel_grid(title, facts, len(panels), 3.5, across) as (figure, grid):
        for axes, panel in zip(grid, panels, strict=True):
            _draw_panel(axes, panel, styles)
        handles = {c.name: _handle(c, styles[c.name]) for panel in panels for c in panel.curves}
        columns = max(1, min(len(handles), 2 * min(across, len(panels))))
        figure.legend(handles=list(handles.values()), loc="outside lower center", ncols=columns)
    return figure


@contextmanager
def _panel_grid(
    title: str, facts: Sequence[str], count: int, height: float, across: int
) -> Iterator[tuple[Figure, Iterator[Axes]]]:
    """Create a figure with ``count`` panels of this height, ``across`` of them in a row."""
    across = min(across, max(1, count))
    down = math.ceil(count / across)
    width = max(6.4, min(4.4 * across, 14.0))
    with new_figure(width, 0.6 + height * down, title, facts if title else ()) as figure:
        grid = figure.add_gridspec(max(1, down), across)
        yield figure, (figure.add_subplot(grid[i // across, i % across]) for i in range(count))


def _styles(curves: Sequence[Curve]) -> dict[str, dict[str, Any]]:
    """Return the look of each name; quiet ones, which are gray, use up no colors."""
    quiet = dict.fromkeys(curve.name for curve in curves if curve.quiet)
    others = dict.fromkeys(curve.name for curve in curves if not curve.quiet)
    return {name: _style(number) for names in (quiet, others) for number, name in enumerate(names)}


def _style(number: int) -> dict[str, Any]:
    """Return the look of a curve; the first one stands out."""
    own = {"color": COLORS[number % len(COLORS)], "marker": MARKERS[number % len(MARKERS)]}
    return {**own, "linewidth": 1.6 if number else 2.8, "zorder": 3 if number else 4}


def _line_style(curve: Curve, style: Mapping[str, Any]) -> dict[str, Any]:
    own = {**style, "markersize": 5.0, "linestyle": DASHED if curve.dashed else "-"}
    if not curve.quiet:
        return own
    size = 0.0 if curve.dashed else 4.5
    return {
        **own,
        "color": QUIET,
        "linewidth": 1.1,
        "markersize": size,
        "markerfacecolor": "white",
        "zorder": 2,
    }


def _handle(curve: Curve, style: Mapping[str, Any]) -> Line2D:
    return Line2D([], [], label=curve.name, **_line_style(curve, style))


def _draw_panel(axes: Axes, panel: Panel, styles: Mapping[str, Mapping[str, Any]]) -> None:
    for curve in panel.curves:
        rows = zip(curve.x, curve.y, curve.std, strict=True)
        points = [(x, y, 0.0 if math.isnan(std) else std) for x, y, std in rows if not math.isnan(y)]
        if points:
            x, y, std = zip(*points, strict=True)
            style = _line_style(curve, styles[curve.name])
            axes.errorbar(x, y, yerr=std, elinewidth=1.1, capsize=2.0, **style)
    if panel.log:
        axes.set_xscale("log")
        axes.set_yscale("log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.6g}"))
            axis.set_minor_locator(NullLocator())
    elif panel.ticks:
        axes.set_xticks(range(len(panel.ticks)), list(panel.ticks))
    else:  # a few measured values, with nothing between them
        values = sorted({x for curve in panel.curves for x in curve.x})
        axes.set_xticks(values, [f"{x:g}" for x in values])
    axes.set_title(panel.title, parse_math=False)
    axes.set_xlabel(panel.x_label, parse_math=False)
    axes.set_ylabel(panel.y_label, parse_math=False)


PAIR_STYLES: dict[str, dict[str, Any]] = {
    "ours": {"marker": "o", "color": COLORS[0], "markersize": 7},
    "paper": {"marker": "o", "color": INK, "markerfacecolor": "none", "markersize": 7},
}


def pairs(
    title: str, facts: Sequence[str], groups: Mapping[str, Sequence[Pair]], label: str, across: int = 2
) -> Figure:
    """Draw a panel for each group, with a row for each name: a dot for our number, a ring for the paper's."""
    filled = {name: group for name, group in groups.items() if group}
    height = 0.9 + 0.3 * max((len(group) for group in filled.values()), default=1)
    with _panel_grid(title, facts, len(filled), height, across) as (figure, grid):
        for axes, (name, group) in zip(grid, filled.items(), strict=True):
            _draw_pairs(axes, group)
            axes.set_title(name, parse_math=False)
            axes.set_xlabel(label)
        handles = [Line2D([], [], linestyle="", label=n, **style) for n, style in PAIR_STYLES.items()]
        figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


def _draw_pairs(axes: Axes, group: Sequence[Pair]) -> None:
    for row, pair in enumerate(group):
        known = [x for x in (pair.ours, pair.paper) if not math.isnan(x)]
        if len(known) == 2:
            axes.plot(known, [row, row], color=GRID, linewidth=5, zorder=1)
        for name, x, std in (("paper", pair.paper, pair.paper_std), ("ours", pair.ours, pair.std)):
            if not math.isnan(x):
                bar = None if math.isnan(std) else std
                axes.errorbar(x, row, xerr=bar, elinewidth=1.1, capsize=2.0, zorder=3, **PAIR_STYLES[name])
    axes.set_yticks(range(len(group)), [pair.name for pair in group])
    axes.tick_params(axis="y", length=0, labelcolor=SOFT)
    axes.set_ylim(len(group) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    axes.margins(x=0.08)
