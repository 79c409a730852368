"""The figure that compares models."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from contig.plots.style import DASHED, GRID, INK, new_figure
from contig.plots.text import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SELECTION_COLORS = {"transductive": "#2f5d8a", "inductive": "#cc4b37"}
MARKS: dict[str, dict[str, Any]] = {
    "transductive": {"marker": "o", "markersize": 7.5, "markeredgecolor": "white", "markeredgewidth": 0.6},
    "inductive": {"marker": "D", "markersize": 5.5, "markeredgecolor": "white", "markeredgewidth": 0.6},
}
HEURISTIC_COLOR = "#7b8794"
STREAM_WIDTH = 7.6  # inches for the panels of one stream
STREAMS_ACROSS = 2
ROW_HEIGHT = 0.31  # inches for one model
NAME_WIDTH = 1.9  # inches; longer names of models are shortened
NAME_SIZE, VALUE_SIZE = 10.0, 9.5  # points
VALUE_OFFSETS = {"transductive": 8, "inductive": 42}  # points right of the panel


class ComparedModel(NamedTuple):
    """One model of a comparison; missing numbers are NaN.

    ``transductive`` and ``inductive`` are mean and standard deviation of AP, between 0 and 1.
    """

    name: str
    learns: bool
    transductive: tuple[float, float]
    inductive: tuple[float, float]
    train_speed: float  # events per second


def comparison(streams: Mapping[str, Sequence[ComparedModel]], facts: Sequence[str]) -> Figure:
    """Draw AP and training speed of each model, best first, for every stream.

    ``streams`` maps the name of a stream to its models; models without an AP are left out.
    """
    ranked = {name: _rank(models) for name, models in streams.items()}
    across = min(STREAMS_ACROSS, len(ranked))
    names = list(ranked)
    lines = [names[i : i + across] for i in range(0, len(names), across)]
    counts = [max(1, *(len(ranked[name]) for name in line)) for line in lines]
    heights = [1.05 + ROW_HEIGHT * count for count in counts]
    width = max(9.6, STREAM_WIDTH * across)
    everyone = [model for models in ranked.values() for model in models]
    title = f"Link prediction on {names[0] if len(names) == 1 else f'{len(names)} datasets'}"
    with new_figure(width, sum(heights), title, facts, _legend(everyone)) as figure:
        grid = figure.add_gridspec(
            len(lines), 2 * across, height_ratios=heights, width_ratios=[1.7, 1] * across
        )
        for row, (line, count) in enumerate(zip(lines, counts, strict=True)):
            for column, name in enumerate(line):
                models = ranked[name]
                precision = figure.add_subplot(grid[row, 2 * column])
                speed = figure.add_subplot(grid[row, 2 * column + 1])
                _draw_precision(precision, models, count)
                _draw_speed(speed, models, count)
                if len(names) > 1:
                    title = shorten(name, width / across - NAME_WIDTH - 0.8, 11, "bold")
                    precision.set_title(title, parse_math=False)
    return figure


def _rank(models: Sequence[ComparedModel]) -> list[ComparedModel]:
    """Sort models by AP, best first."""
    measured = [model for model in models if not math.isnan(model.transductive[0])]
    return sorted(measured, key=lambda model: model.transductive[0], reverse=True)


def _legend(models: Sequence[ComparedModel]) -> list[Line2D]:
    handles = [
        Line2D([], [], linestyle="", label=selection, color=SELECTION_COLORS[selection], **mark)
        for selection, mark in MARKS.items()
        if any(selection in _known(model) for model in models)
    ]
    if any(not model.learns for model in models):
        look: dict[str, Any] = {"color": HEURISTIC_COLOR, "linewidth": 1.2, "linestyle": DASHED}
        handles.append(Line2D([], [], label="best heuristic baseline (names in italics)", **look))
    return handles


def _draw_precision(axes: Axes, models: Sequence[ComparedModel], rows: int) -> None:
    """Draw a mark per model and selection, with one standard deviation to each side, and its value."""
    for row, model in enumerate(models):
        means = [100 * mean for mean, _ in _known(model).values()]
        axes.plot([min(means), max(means)], [row, row], color=GRID, linewidth=5, zorder=1)
    for selection, mark in MARKS.items():
        known = {row: model for row, model in enumerate(models) if selection in _known(model)}
        if not known:
            continue
        aps, stds = zip(*(getattr(model, selection) for model in known.values()), strict=True)
        axes.errorbar(
            [100 * ap for ap in aps],
            [row + _shift(model, selection) for row, model in known.items()],
            xerr=[100 * std for std in stds],  # NaN draws no bar
            color=SELECTION_COLORS[selection],
            linestyle="",
            elinewidth=1.6,
            capsize=2.5,
            zorder=3,
            **mark,
        )
        for row, ap in zip(known, aps, strict=True):
            _write_value(axes, f"{100 * ap:.1f}", row, selection)
    best = next((model for model in models if not model.learns), None)
    if best is not None:
        ap = 100 * best.transductive[0]
        axes.axvline(ap, color=HEURISTIC_COLOR, linewidth=1.2, linestyle=DASHED, zorder=0.9)
    _set_rows(axes, rows)
    axes.set_yticks(
        range(len(models)), [shorten(model.name, NAME_WIDTH, NAME_SIZE) for model in models], parse_math=False
    )
    for label, model in zip(axes.get_yticklabels(), models, strict=True):
        label.set(color=INK if model.learns else HEURISTIC_COLOR, fontsize=NAME_SIZE)
        label.set_fontstyle("normal" if model.learns else "italic")
    axes.margins(x=0.06)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel("test AP, %")


def _known(model: ComparedModel) -> dict[str, tuple[float, float]]:
    """Return the selections for which there is an AP."""
    return {name: ap for name in MARKS if not math.isnan((ap := getattr(model, name))[0])}


def _shift(model: ComparedModel, selection: str) -> float:
    """Return how far a mark is moved from its row, so that two of them do not overlap."""
    return 0.0 if len(_known(model)) == 1 else {"transductive": -0.13, "inductive": 0.13}[selection]


def _draw_speed(axes: Axes, models: Sequence[ComparedModel], rows: int) -> None:
    """Draw the training speed of the models that are trained, in the rows of the other panel."""
    trained = {row: model.train_speed for row, model in enumerate(models) if _is_trained(model)}
    _set_rows(axes, rows)
    axes.set_yticks(range(len(models)), [""] * len(models))
    if not trained:
        axes.set_axis_off()
        return
    color = SELECTION_COLORS["transductive"]
    axes.set_xscale("log")
    axes.plot(
        list(trained.values()), list(trained), color=color, linestyle="", zorder=3, **MARKS["transductive"]
    )
    for row, speed in trained.items():
        _write_value(axes, _short_number(speed), row, "transductive")
    low, high = min(trained.values()), max(trained.values())
    axes.set_xlim(low / 1.5, high * 1.5)
    axes.xaxis.set_major_locator(FixedLocator(_log_ticks(*axes.get_xlim())))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: _short_number(x)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("training events per second")


def _log_ticks(low: float, high: float) -> list[float]:
    """Return round numbers between ``low`` and ``high``, few enough for their labels not to touch."""
    ratio = high / low
    digits = (1, 2, 5) if ratio < 18 else (1, 3) if ratio < 110 else (1,)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)))
    return [tick for decade in decades for digit in digits if low <= (tick := digit * 10.0**decade) <= high]


def _is_trained(model: ComparedModel) -> bool:
    return model.learns and model.train_speed > 0


def _set_rows(axes: Axes, rows: int) -> None:
    """Make room for ``rows`` models from the top down."""
    axes.set_ylim(rows - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)


def _write_value(axes: Axes, text: str, row: int, selection: str) -> None:
    """Write a number to the right of its row."""
    axes.annotate(
        text,
        (1.0, row),
        xycoords=("axes fraction", "data"),
        xytext=(VALUE_OFFSETS[selection], 0),
        textcoords="offset points",
        va="center",
        fontsize=VALUE_SIZE,
        color=SELECTION_COLORS[selection],
    )


def _short_number(value: float) -> str:
    for scale, unit in ((1e6, "M"), (1e3, "k")):
        if value >= 0.9995 * scale:
            return f"{value / scale:.3g}{unit}"
    return f"{value:.3g}"
