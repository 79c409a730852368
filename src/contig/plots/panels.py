"""Pictures of curves side by side, and of numbers beside those of a paper."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from contig.plots.style import CUT_LINE, GRID, INK, SOFT, draw_heading, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The first is for what a picture is about; one colour for one name throughout a picture.
COLOURS = (
    *("#cc4b37", "#2f5d8a", "#eda63a", "#21797c", "#7b5aa6", "#8c6d46"),
    *("#d47fa6", "#5b8c3e", "#4f6272", "#2aa7c4", "#a59a1c", "#3f3fa0"),
)
QUIET = "#a9b2bc"
MARKERS = "osD^vPX<>h*d"


class Curve(NamedTuple):
    """Points with their deviations (NaN for none); a quiet one stands behind the others.

    One that is quiet and dashed is a line to compare with, and its points are not marked.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    std: Sequence[float]
    quiet: bool = False
    dashed: bool = False


class Panel(NamedTuple):
    """Curves over one pair of axes; ``ticks`` name the places on the x axis where it is no scale."""

    title: str
    curves: Sequence[Curve]
    x_label: str
    y_label: str
    ticks: Sequence[str] = ()
    log: bool = False


class Pair(NamedTuple):
    """A number with its deviation, beside the paper's; NaN for none."""

    name: str
    here: float
    std: float
    paper: float
    paper_std: float


def curves(title: str, facts: Sequence[str], panels: Sequence[Panel], across: int = 3) -> Figure:
    """Panels, ``across`` of them in a row, with one legend for all; no heading where there is no title.

    More than three in a row are narrower.
    """
    names = list(dict.fromkeys(c.name for panel in panels for c in panel.curves))
    looks = {name: _look(place) for place, name in enumerate(names)}
    with _places(title, facts, len(panels), 3.5, across) as (figure, places):
        for axes, panel in zip(places, panels, strict=True):
            _draw(axes, panel, looks)
        marks = {c.name: _handle(c, looks[c.name]) for panel in panels for c in panel.curves}
        columns = max(1, min(len(marks), 2 * min(across, len(panels))))
        figure.legend(handles=list(marks.values()), loc="outside lower center", ncols=columns)
    return figure


@contextmanager
def _places(
    title: str, facts: Sequence[str], count: int, tall: float, across: int
) -> Iterator[tuple[Figure, Iterator[Axes]]]:
    """An empty figure and its panels, one after the other, a few in a row."""
    across = min(across, max(1, count))
    down, top = math.ceil(count / across), 1 if title else 0
    with new_figure(max(6.4, min(4.4 * across, 14.0)), 0.6 + 0.7 * top + tall * down) as figure:
        grid = figure.add_gridspec(top + down, across, height_ratios=(*[0.62] * top, *[tall] * down))
        if title:
            draw_heading(figure.add_subplot(grid[0, :]), title, facts)
        yield figure, (figure.add_subplot(grid[top + i // across, i % across]) for i in range(count))


def _look(place: int) -> dict[str, Any]:
    """The first stands out and in front."""
    own = {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place % len(MARKERS)]}
    return {**own, "linewidth": 1.6 if place else 2.8, "zorder": 3 if place else 4}


def _line(curve: Curve, look: Mapping[str, Any]) -> dict[str, Any]:
    """How a curve is drawn."""
    own = {**look, "markersize": 5.0, "linestyle": CUT_LINE if curve.dashed else "-"}
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


def _handle(curve: Curve, look: Mapping[str, Any]) -> Line2D:
    return Line2D([], [], label=curve.name, **_line(curve, look))


def _draw(axes: Axes, panel: Panel, looks: Mapping[str, Mapping[str, Any]]) -> None:
    for curve in panel.curves:
        known = [not math.isnan(y) for y in curve.y]
        rows = zip(curve.x, curve.y, curve.std, known, strict=True)
        points = [(x, y, 0.0 if math.isnan(std) else std) for x, y, std, some in rows if some]
        if points:
            x, y, std = zip(*points, strict=True)
            axes.errorbar(x, y, yerr=std, elinewidth=1.1, capsize=2.0, **_line(curve, looks[curve.name]))
    if panel.log:
        axes.set_xscale("log")
        axes.set_yscale("log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.6g}"))
            axis.set_minor_locator(NullLocator())
    elif panel.ticks:
        axes.set_xticks(range(len(panel.ticks)), list(panel.ticks))
    else:  # a few chosen values, and nothing was asked between them
        places = sorted({x for curve in panel.curves for x in curve.x})
        axes.set_xticks(places, [f"{x:g}" for x in places])
    axes.set_title(panel.title, parse_math=False)
    axes.set_xlabel(panel.x_label, parse_math=False)
    axes.set_ylabel(panel.y_label, parse_math=False)


def pairs(
    title: str, facts: Sequence[str], groups: Mapping[str, Sequence[Pair]], label: str, across: int = 2
) -> Figure:
    """A panel for each group: a line for each name, a dot for here and a ring for the paper."""
    fields = {name: some for name, some in groups.items() if some}
    tall = 0.9 + 0.3 * max((len(some) for some in fields.values()), default=1)
    with _places(title, facts, len(fields), tall, across) as (figure, places):
        for axes, (name, some) in zip(places, fields.items(), strict=True):
            _draw_pairs(axes, some)
            axes.set_title(name, parse_math=False)
            axes.set_xlabel(label)
        handles = [Line2D([], [], linestyle="", label=n, **look) for n, look in PAIR_LOOKS.items()]
        figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


PAIR_LOOKS: dict[str, dict[str, Any]] = {
    "here": {"marker": "o", "color": COLOURS[0], "markersize": 7},
    "the paper": {"marker": "o", "color": INK, "markerfacecolor": "none", "markersize": 7},
}


def _draw_pairs(axes: Axes, some: Sequence[Pair]) -> None:
    for place, one in enumerate(some):
        known = [x for x in (one.here, one.paper) if not math.isnan(x)]
        if len(known) == 2:
            axes.plot(known, [place, place], color=GRID, linewidth=5, zorder=1)
        for look, x, std in (("the paper", one.paper, one.paper_std), ("here", one.here, one.std)):
            if not math.isnan(x):
                bar = 0.0 if math.isnan(std) else std
                axes.errorbar(x, place, xerr=bar, elinewidth=1.1, capsize=2.0, zorder=3, **PAIR_LOOKS[look])
    axes.set_yticks(range(len(some)), [one.name for one in some])
    axes.tick_params(axis="y", length=0, labelcolor=SOFT)
    axes.set_ylim(len(some) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    axes.margins(x=0.08)
