"""The curves of Fig. 3 and Fig. 4: all models, with room for the comparison that the paper makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from math import isnan
from statistics import mean
from typing import TYPE_CHECKING

from contig.plots import Curve, Panel
from contig.reproduction.items.drawing import draw_curves, error_bar_ends, y_limits
from contig.reproduction.paper import BASELINE, MODEL
from contig.reproduction.tables.numbers import Line

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KNOWN_NODES = "* only on test events between nodes seen in training: these models cannot score new nodes."
BEST_HEURISTIC = "Of the heuristics, only the best on each dataset is drawn; the table has all."
ROOM_BELOW = 2.0  # the models to compare have at least a third of the axis, whatever is below them

Row = Mapping[str, Sequence[Line]]  # the lines of each panel, by its title


def draw_models(
    rows: Sequence[Row], x: Sequence[float], frame: Panel, title: str, facts: Sequence[str], across: int = 3
) -> Figure | None:
    """Draw the first numbers of each line over ``x``, in panels like ``frame``.

    The panels of a row share a y axis. It has room for the models to compare and the best of the others;
    those below it are only named. Of the heuristics only the best of a row is drawn.
    """
    cut = [
        {name: [line._replace(values=line.values[: len(x)]) for line in some] for name, some in row.items()}
        for row in rows
    ]
    kept = [_with_the_best_heuristic(row) for row in cut]
    panels = [panel for row in kept for panel in _panels(row, x, frame)]
    notes = [KNOWN_NODES] if any(line.other_events for row in kept for line in _lines(row)) else []
    if kept != cut:
        notes.append(BEST_HEURISTIC)
    return draw_curves(panels, title, facts, across, notes)


def _panels(row: Row, x: Sequence[float], frame: Panel) -> list[Panel]:
    limits = _limits(_lines(row))
    return [
        frame._replace(
            title=title, curves=[_curve(line, x) for line in sorted(lines, key=_place)], y_limits=limits
        )
        for title, lines in row.items()
    ]


def _curve(line: Line, x: Sequence[float]) -> Curve:
    name = f"{line.label} (heuristic)" if line.heuristic else f"{line.label}{'*' * line.other_events}"
    ours = [value.ours for value in line.values]
    variant = _place(line) is _Place.VARIANT
    return Curve(
        name,
        x,
        [spread.mean for spread in ours],
        [spread.std for spread in ours],
        quiet=line.heuristic,
        on_top=line.label == BASELINE,
        dashed=variant or line.other_events,
        like=MODEL if variant else "",
    )


class _Place(IntEnum):
    """Where the legend names a line."""

    MODEL, VARIANT, BASELINE, OTHER, HEURISTIC = range(5)


def _place(line: Line) -> _Place:
    if line.heuristic:
        return _Place.HEURISTIC
    if line.excluded:
        return _Place.VARIANT
    return {MODEL: _Place.MODEL, BASELINE: _Place.BASELINE}.get(line.label, _Place.OTHER)


def _with_the_best_heuristic(row: Row) -> dict[str, list[Line]]:
    """Leave out all heuristics but the one that is the best over the whole row."""
    best = _best([line for line in _lines(row) if line.heuristic])
    return {
        name: [line for line in lines if not line.heuristic or line.label == best]
        for name, lines in row.items()
    }


def _limits(lines: Sequence[Line]) -> tuple[float, float] | None:
    """Return the limits of the y axis: up to the highest number, and down as far as ``draw_models`` says."""
    others = [line for line in lines if _place(line) is _Place.OTHER and not line.other_events]
    best = _best(others)
    compared = _ends([line for line in lines if _place(line) < _Place.OTHER])
    shown = compared + _ends([line for line in others if line.label == best])
    if not shown:
        return None
    low, high = min(shown), max(_ends(lines))
    if compared:
        lowest = min(compared)
        low = max(low, lowest - ROOM_BELOW * (high - lowest))
    return y_limits(low, high)


def _best(lines: Sequence[Line]) -> str:
    """Return the label with the highest mean over all its lines; empty if no number is known."""
    means: dict[str, list[float]] = {}
    for line in lines:
        known = [value.ours.mean for value in line.values if not isnan(value.ours.mean)]
        means.setdefault(line.label, []).extend(known)
    return max((label for label in means if means[label]), key=lambda label: mean(means[label]), default="")


def _ends(lines: Sequence[Line]) -> list[float]:
    return error_bar_ends(value.ours for line in lines for value in line.values)


def _lines(row: Row) -> list[Line]:
    return [line for lines in row.values() for line in lines]
