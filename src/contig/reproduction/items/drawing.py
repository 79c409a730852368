"""Lines of a table as marks of a figure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isnan
from typing import TYPE_CHECKING

from contig.experiments.rows import Spread
from contig.plots import Pair, Panel, curves, pairs
from contig.reproduction.tables.numbers import Line

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def pairs_of(lines: Iterable[Line], column: int) -> list[Pair]:
    """Return one column, each of our numbers with the paper's."""
    return [Pair(line.label, *line.values[column].ours, *line.values[column].paper) for line in lines]


def draw_pairs(
    groups: Mapping[str, Sequence[Pair]], title: str, facts: Sequence[str], label: str
) -> Figure | None:
    """Draw a panel for each group that has numbers."""
    filled = {name: some for name, some in groups.items() if some}
    return pairs(title, facts, filled, label) if filled else None


def y_limits(low: float, high: float) -> tuple[float, float]:
    """Return the limits of an axis that shows values from ``low`` to ``high``."""
    margin = 0.05 * (high - low) or 1.0
    return low - margin, high + margin


def error_bar_ends(found: Iterable[Spread]) -> list[float]:
    """Return both ends of the error bar of every known number."""
    known = [(s.mean, 0.0 if isnan(s.std) else s.std) for s in found if not isnan(s.mean)]
    return [end for mean, std in known for end in (mean - std, mean + std)]


def draw_curves(
    panels: Iterable[Panel], title: str, facts: Sequence[str], across: int = 3, notes: Sequence[str] = ()
) -> Figure | None:
    """Draw the panels that have curves."""
    filled = [panel for panel in panels if panel.curves]
    return curves(title, facts, filled, across, notes) if filled else None
