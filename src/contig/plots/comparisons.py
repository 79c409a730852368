"""The picture of models side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from contig.plots.style import CUT_LINE, GRID, INK, SOFT, draw_heading, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SELECTION_COLOURS = {"transductive": "#2f5d8a", "inductive": "#cc4b37"}
MARKS: dict[str, dict[str, Any]] = {
    "transductive": {"marker": "o", "markersize": 7.5, "markeredgecolor": "white", "markeredgewidth": 0.6},
    "inductive": {"marker": "D", "markersize": 5.5, "markeredgecolor": "white", "markeredgewidth": 0.6},
}
RULE_COLOUR = "#8a94a0"
ROW_HEIGHT = 0.36  # inches a model takes
LABEL_GAP = 0.055  # of the panel's height, between the names of two neighbours


class Contestant(NamedTuple):
    """One line of a comparison; NaN stands for what there is not.

    ``transductive`` and ``inductive`` are AP as mean and standard deviation, between 0 and 1.
    """

    name: str
    learns: bool
    transductive: tuple[float, float]
    inductive: tuple[float, float]
    train_speed: float  # events per second


def comparison(contests: Mapping[str, Sequence[Contestant]], facts: Sequence[str]) -> Figure:
    """A row of two panels for each stream: AP by model, the best on top, and AP against training speed.

    ``contests`` are by the streams' names; who has no AP is left out.
    """
    fields = {name: _ranked(field) for name, field in contests.items()}
    heights = [max(3.0, 1.1 + ROW_HEIGHT * len(field)) for field in fields.values()]
    with new_figure(11.5, 0.8 + sum(heights)) as figure:
        grid = figure.add_gridspec(
            1 + len(fields), 2, height_ratios=(0.62, *heights), width_ratios=(1.25, 1.0)
        )
        title = "Link prediction on " + ", ".join(fields)
        draw_heading(figure.add_subplot(grid[0, :]), title, facts)
        for row, (name, field) in enumerate(fields.items(), start=1):
            where = f" on {name}" if len(fields) > 1 else ""
            ranks, speeds = figure.add_subplot(grid[row, 0]), figure.add_subplot(grid[row, 1])
            _draw_ranks(ranks, field)
            ranks.set_title(f"Test AP{where}, %")
            _draw_speeds(speeds, field)
            speeds.set_title(f"AP against training speed{where}")
    return figure


def _ranked(field: Sequence[Contestant]) -> list[Contestant]:
    """Best first."""
    measured = [one for one in field if not math.isnan(one.transductive[0])]
    return sorted(measured, key=lambda one: one.transductive[0], reverse=True)


def _draw_ranks(axes: Axes, field: Sequence[Contestant]) -> None:
    """A line for each model with a mark for each selection; a bar is one standard deviation each way."""
    for column, (selection, colour) in enumerate(SELECTION_COLOURS.items()):
        mark: dict[str, Any] = {"color": colour, **MARKS[selection]}
        axes.plot([], [], linestyle="", label=selection, **mark)
        for place, one in enumerate(field):
            ap, std = getattr(one, selection)
            if math.isnan(ap):
                continue
            both = not math.isnan(one.inductive[0])
            at = place + (0.26 * column - 0.13 if both else 0.0)
            axes.errorbar(100 * ap, at, xerr=_bar(std), elinewidth=1.6, capsize=2.5, zorder=3, **mark)
            axes.annotate(
                f"{100 * ap:.1f}",
                (1.02 + 0.085 * column, place),
                xycoords=("axes fraction", "data"),
                va="center",
                color=colour,
            )
    for place, one in enumerate(field):
        known = [100 * ap for ap, _ in (one.transductive, one.inductive) if not math.isnan(ap)]
        axes.plot([min(known), max(known)], [place, place], color=GRID, linewidth=5, zorder=1)
    axes.set_yticks(range(len(field)), [one.name for one in field])
    for label, one in zip(axes.get_yticklabels(), field, strict=True):
        label.set(color=INK if one.learns else RULE_COLOUR, fontsize=10)
        label.set_fontstyle("normal" if one.learns else "italic")
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(field) - 0.4, -0.6)  # the best on top
    axes.margins(x=0.06)
    axes.grid(axis="y", visible=False)
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, borderaxespad=0.3)


def _bar(std: float) -> float:
    return 0.0 if math.isnan(std) else 100 * std


def _draw_speeds(axes: Axes, field: Sequence[Contestant]) -> None:
    """Those that learn as points, the best rule as a line to be above of."""
    trained = [one for one in field if one.learns and not math.isnan(one.train_speed)]
    rules = [one for one in field if not one.learns]
    colour = SELECTION_COLOURS["transductive"]
    if not trained:
        axes.set_axis_off()
        return
    for one in trained:
        ap, std = one.transductive
        axes.errorbar(
            one.train_speed,
            100 * ap,
            yerr=_bar(std),
            color=colour,
            elinewidth=1.4,
            capsize=2.5,
            zorder=3,
            **MARKS["transductive"],
        )
    axes.set_xscale("log")
    low, high = (f(one.train_speed for one in trained) for f in (min, max))
    axes.set_xlim(low / 1.6, high * max(2.2, (high / low) ** 0.35))  # room for the names at the right
    heights = [100 * one.transductive[0] for one in [*trained, *rules[:1]]]
    room = max(max(heights) - min(heights), 1.0)
    axes.set_ylim(min(heights) - 0.12 * room, max(heights) + 0.12 * room)
    if rules:
        best = rules[0]
        axes.axhline(100 * best.transductive[0], color=RULE_COLOUR, linewidth=1.2, linestyle=CUT_LINE)
        axes.annotate(
            f"best rule: {best.name}",
            (0.99, 100 * best.transductive[0]),
            xycoords=("axes fraction", "data"),
            xytext=(0, 3),
            textcoords="offset points",
            ha="right",
            color=RULE_COLOUR,
            fontstyle="italic",
        )
    _name_points(axes, trained)
    axes.set_xlabel("training events per second")
    axes.set_ylabel("transductive AP, %")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x / 1000:g}k" if x >= 1000 else f"{x:g}"))
    axes.xaxis.set_minor_locator(NullLocator())


def _name_points(axes: Axes, trained: Sequence[Contestant]) -> None:
    """Names right of the points, moved apart where two would lie over each other."""
    bottom, top = axes.get_ylim()
    left, right = map(math.log, axes.get_xlim())
    taken: list[tuple[float, float]] = []
    for one in trained:  # from the top down
        x = (math.log(one.train_speed) - left) / (right - left)
        y = (100 * one.transductive[0] - bottom) / (top - bottom)
        place = y
        for other_x, other_y in taken:
            if abs(other_x - x) < 0.25 and place > other_y - LABEL_GAP:
                place = other_y - LABEL_GAP
        taken.append((x, place))
        moved = abs(place - y) > LABEL_GAP / 2
        axes.annotate(
            one.name,
            (x, y),
            xycoords="axes fraction",
            xytext=(x + 0.028, place),
            textcoords="axes fraction",
            va="center",
            fontsize=10,
            color=INK,
            arrowprops={"arrowstyle": "-", "color": SOFT, "linewidth": 0.6} if moved else None,
        )
