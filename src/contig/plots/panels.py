"""Panels of curves, and of numbers compared with those of a paper."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from matplotlib.transforms import ScaledTranslation

from contig.plots.style import DASHED, GRID, INK, MARGIN, SOFT, new_figure
from contig.plots.text import POINTS_PER_INCH, wrap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

# The first color is for the subject of a figure; a name has one color throughout a figure.
COLORS = (
    *("#cc4b37", "#2f5d8a", "#eda63a", "#21797c", "#7b5aa6", "#8c6d46"),
    *("#d47fa6", "#5b8c3e", "#2aa7c4", INK, "#a59a1c", "#3f3fa0"),
)
QUIET = "#7b8794"
MARKERS = "osD^vPX<>h*d"
GRAY_DASHES: tuple[Any, ...] = ("-", (0, (1, 1.5)), (0, (6, 2, 1, 2)), DASHED)
MARKED_LINE: dict[str, Any] = {"color": SOFT, "alpha": 0.25, "linewidth": 9.0, "zorder": 1}
MARKED_SIGN: dict[str, Any] = {"color": SOFT, "alpha": 0.25, "linestyle": "", "marker": "s", "markersize": 9}
BAR_SHIFT = 1.5  # points
LOG_DIGITS, LOG_MARGIN = (1.0, 2.0, 5.0), 1.1
LABEL_SIZE, NOTE_SIZE = 9.5, 8.5  # points
PANEL_MARGIN = 0.9  # inches beside the axes of a panel


class Curve(NamedTuple):
    """Points with their standard deviations; missing numbers are NaN.

    Where a curve is drawn on top, the first one of the figure is wide, so that both show where they are
    alike. A quiet one is gray and behind all others.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    std: Sequence[float]
    quiet: bool = False
    on_top: bool = False
    dashed: bool = False
    line: bool = True
    marks: bool = True
    like: str = ""  # name of a curve whose color it shares


class Marked(NamedTuple):
    """A value of the x axis to mark, and what the legend calls it."""

    x: float
    name: str


class Panel(NamedTuple):
    """Curves over one pair of axes; ``ticks`` are the labels of a categorical x axis.

    A curve of which most points are below ``y_limits`` is only named, under the panel.
    """

    title: str
    curves: Sequence[Curve]
    x_label: str
    y_label: str
    ticks: Sequence[str] = ()
    log_x: bool = False
    log_y: bool = False
    y_limits: tuple[float, float] | None = None
    marked: Marked | None = None

    @property
    def bottom(self) -> float:
        return -math.inf if self.y_limits is None else self.y_limits[0]

    def below(self) -> list[str]:
        """Return the names of the curves of which most points are below the panel."""
        known = {curve.name: [y for y in curve.y if not math.isnan(y)] for curve in self.curves}
        return [name for name, ys in known.items() if sum(y < self.bottom for y in ys) > len(ys) / 2]


class Pair(NamedTuple):
    """A number with its standard deviation, and that of the paper; missing ones are NaN."""

    name: str
    ours: float
    std: float
    paper: float
    paper_std: float


def curves(
    title: str, facts: Sequence[str], panels: Sequence[Panel], across: int = 3, notes: Sequence[str] = ()
) -> Figure:
    """Draw panels, ``across`` of them in a row, above ``notes`` and one legend.

    Without a title there is no heading.
    """
    looks = _looks(panels)
    across = max(1, min(across, len(panels)))
    with _panel_grid(title, facts, len(panels), 3.5, across) as (figure, grid):
        width = figure.get_figwidth() / across - PANEL_MARGIN
        for axes, panel in zip(grid, panels, strict=True):
            _draw_panel(axes, panel, looks, width)
        _draw_legend(figure, panels, looks, notes, 2 * across)
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


class _Look(NamedTuple):
    """How a curve is drawn: the options of its line and marks, and how far its error bars are moved."""

    line: dict[str, Any]
    bar_shift: float = 0.0  # points


# Narrow curves are above the wide one, which remains visible below them.
RIM = {"markeredgecolor": "white", "markeredgewidth": 0.6}
FIRST = {"linewidth": 3.4, "markersize": 8.0, **RIM, "zorder": 3}
ON_TOP = {"linewidth": 1.7, "markersize": 4.5, **RIM, "zorder": 5}
OTHER = {"linewidth": 1.1, "markersize": 4.5, "zorder": 4}
GRAY = {"color": QUIET, "markerfacecolor": "white", "linewidth": 1.3, "markersize": 4.5, "zorder": 2}


def _looks(panels: Sequence[Panel]) -> dict[str, _Look]:
    """Return the look of each name, in the order of the legend."""
    named = {curve.name: curve for panel in panels for curve in panel.curves}
    order = [named[name] for name in _names(panels)]
    quiet = [curve for curve in order if curve.quiet]
    others = sorted((c for c in order if not c.quiet), key=lambda c: c.like in named)  # use up no colors
    looks = {curve.name: _gray_look(number, curve) for number, curve in enumerate(quiet)}
    on_top = any(curve.on_top for curve in others)
    for number, curve in enumerate(others):
        looks[curve.name] = _look(number, curve, wide=on_top and number == 0)
        if curve.like in looks:
            looks[curve.name].line.update(color=looks[curve.like].line["color"], markerfacecolor="white")
    return {curve.name: looks[curve.name] for curve in order}


def _names(panels: Sequence[Panel]) -> list[str]:
    """Return the names of all curves; one that is new in a panel follows the one before it there."""
    names: list[str] = []
    for panel in panels:
        place = 0 if any(curve.name in names for curve in panel.curves) else len(names)
        for curve in panel.curves:
            if curve.name not in names:
                names.insert(place, curve.name)
            place = names.index(curve.name) + 1
    return names


def _look(number: int, curve: Curve, *, wide: bool) -> _Look:
    own = {**_signs(number, curve), "color": COLORS[number % len(COLORS)]}
    if wide:
        return _Look({**own, **FIRST}, -BAR_SHIFT)
    return _Look({**own, **ON_TOP}, BAR_SHIFT) if curve.on_top else _Look({**own, **OTHER})


def _gray_look(number: int, curve: Curve) -> _Look:
    return _Look({**_signs(number, curve, GRAY_DASHES[number % len(GRAY_DASHES)]), **GRAY})


def _signs(number: int, curve: Curve, dashes: Any = "-") -> dict[str, Any]:
    """Return the mark and the dashes of a curve, as far as it has any."""
    marker = MARKERS[number % len(MARKERS)] if curve.marks else ""
    return {"marker": marker, "linestyle": (DASHED if curve.dashed else dashes) if curve.line else ""}


def _draw_panel(axes: Axes, panel: Panel, looks: Mapping[str, _Look], width: float) -> None:
    """Draw a panel that is ``width`` inches wide."""
    below = panel.below()
    for curve in panel.curves:
        if curve.name not in below:
            _draw_curve(axes, curve, looks[curve.name], panel.bottom)
    if panel.marked is not None:
        axes.axvline(panel.marked.x, **MARKED_LINE)
    _set_axes(axes, panel)
    note = f"most points below the axis: {', '.join(below)}" if below else ""
    labels = filter(None, (panel.x_label, wrap(note.split(), " ", width, LABEL_SIZE)))
    axes.set_xlabel("\n".join(labels), parse_math=False)
    axes.set_ylabel(panel.y_label, parse_math=False)
    axes.set_title(panel.title, parse_math=False)


def _draw_curve(axes: Axes, curve: Curve, look: _Look, bottom: float) -> None:
    """Draw the known points; those below the panel have no error bar, which could reach into it."""
    rows = zip(curve.x, curve.y, curve.std, strict=True)
    points = [(x, y, math.nan if y < bottom else std) for x, y, std in rows if not math.isnan(y)]
    if points:
        x, y, std = zip(*points, strict=True)
        _, caps, bars = axes.errorbar(x, y, std, elinewidth=1.1, capsize=2.0, label=curve.name, **look.line)
        shift = ScaledTranslation(look.bar_shift / POINTS_PER_INCH, 0.0, axes.figure.dpi_scale_trans)
        for part in (*caps, *bars):
            part.set_transform(axes.transData + shift)


def _set_axes(axes: Axes, panel: Panel) -> None:
    """Set ticks and limits."""
    points = [(x, y) for c in panel.curves for x, y in zip(c.x, c.y, strict=True) if not math.isnan(y)]
    if panel.ticks:
        axes.set_xticks(range(len(panel.ticks)), list(panel.ticks))
    elif not panel.log_x:  # a few measured values, with nothing between them
        values = sorted({x for curve in panel.curves for x in curve.x})
        axes.set_xticks(values, [f"{x:g}" for x in values])
    elif points:
        axes.set_xscale("log")
        axes.set_xlim(_set_log_ticks(axes.xaxis, [x for x, _ in points]))
    if panel.log_y and points:
        axes.set_yscale("log")
        axes.set_ylim(_set_log_ticks(axes.yaxis, [y for _, y in points]))
    if panel.y_limits is not None:
        axes.set_ylim(panel.y_limits)


def _set_log_ticks(axis: Axis, values: Sequence[float]) -> tuple[float, float]:
    """Label 1, 2 and 5 of every decade; return limits a little outside of the labels around the data."""
    axis.set_major_locator(LogLocator(subs=LOG_DIGITS))
    axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.6g}"))
    axis.set_minor_locator(NullLocator())
    low, high = min(values), max(values)
    decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    labels = [digit * 10.0**decade for decade in decades for digit in LOG_DIGITS]
    first, last = max(x for x in labels if x <= low), min(x for x in labels if x >= high)
    return first / LOG_MARGIN, last * LOG_MARGIN


def _draw_legend(
    figure: Figure,
    panels: Sequence[Panel],
    looks: Mapping[str, _Look],
    notes: Sequence[str],
    columns: int,
) -> None:
    """Explain the curves that a panel shows, and marked values."""
    shown = {curve.name for panel in panels for curve in panel.curves if curve.name not in panel.below()}
    entries = {name: look.line for name, look in looks.items() if name in shown}
    entries |= {panel.marked.name: MARKED_SIGN for panel in panels if panel.marked}
    width = figure.get_figwidth() - 2 * MARGIN
    legend = figure.legend(
        handles=[Line2D([], [], label=name, **look) for name, look in entries.items()],
        loc="outside lower center",
        ncols=max(1, min(len(entries), columns)),
        title="\n".join(wrap(note.split(), " ", width, NOTE_SIZE) for note in notes) or None,
        title_fontsize=NOTE_SIZE,
        alignment="left",
    )
    legend.get_title().set_color(SOFT)


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
