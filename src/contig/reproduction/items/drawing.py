"""Lines of a table as marks of a figure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from contig.plots import Curve, Pair, Panel, curves, pairs
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


def curve_of(line: Line, x: Sequence[float]) -> Curve:
    """Return the first numbers of a line as a curve over ``x``."""
    ours = [value.ours for value in line.values[: len(x)]]
    return Curve(line.label, x, [s.mean for s in ours], [s.std for s in ours], quiet=line.heuristic)


def draw_curves(panels: Iterable[Panel], title: str, facts: Sequence[str], across: int = 3) -> Figure | None:
    """Draw the panels that have curves."""
    filled = [panel for panel in panels if panel.curves]
    return curves(title, facts, filled, across) if filled else None
