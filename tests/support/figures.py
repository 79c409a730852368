"""Reading figures."""

from __future__ import annotations

from matplotlib.axes import Axes


def points(axes: Axes) -> list[tuple[float, float]]:
    """Return every point of every curve or mark, in the order they were drawn."""
    lines = [mark.lines[0] for mark in axes.containers]  # type: ignore[attr-defined]
    return [(float(x), float(y)) for line in lines for x, y in zip(*line.get_data(), strict=True)]
