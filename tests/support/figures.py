"""Reading figures."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure


def points(axes: Axes) -> list[tuple[float, float]]:
    """Return every point of every curve or mark, in the order they were drawn."""
    lines = [mark.lines[0] for mark in axes.containers]  # type: ignore[attr-defined]
    return [(float(x), float(y)) for line in lines for x, y in zip(*line.get_data(), strict=True)]


def curves(axes: Axes) -> dict[str, list[tuple[float, float]]]:
    """Return the points of every curve by its name."""
    return {
        str(mark.get_label()): [(float(x), float(y)) for x, y in zip(*mark.lines[0].get_data(), strict=True)]  # type: ignore[attr-defined]
        for mark in axes.containers
    }


def legend(figure: Figure) -> list[str]:
    """Return the names in the legend."""
    [found] = figure.legends
    return [text.get_text() for text in found.get_texts()]


def legend_notes(figure: Figure) -> str:
    """Return what stands above the names of the legend, on one line."""
    [found] = figure.legends
    return " ".join(found.get_title().get_text().split())
