"""The figures of a reproduction, drawn from the numbers of its tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import isnan, nan
from typing import TYPE_CHECKING

from contig.plots import Curve, Pair, Panel, curves, pairs
from contig.reproduction.findings import OPTIONS, recalls
from contig.reproduction.grids import Grid, Line, Table
from contig.reproduction.paper import paper
from contig.reproduction.scaling import power_law
from contig.tasks.intervals import SETS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figure(table: Table, facts: Sequence[str] | None) -> Figure | None:
    """The picture of a table with its title and facts, or with neither; None if there is nothing to draw."""
    title = "" if facts is None else table.title
    facts = [*(["QUICK: not the paper's experiment"] if table.warning else []), *(facts or [])]
    if table.name in ("table2", "table4"):
        groups = {name: some for name, some in _pairs(table) if some}
        return pairs(title, facts, groups, "AP, %") if groups else None
    if table.name == "table3":
        groups = {stream: _column(table.grids[0], i) for i, stream in _columns(table)}
        return pairs(title, facts, groups, "AUC, %") if groups else None
    panels: dict[str, Callable[[Table], Iterator[Panel]]] = {
        **{"fig3": _recalls, "fig4": _intervals, "fig5": _sweeps, "fig6": _times},
    }
    drawn = [panel for panel in panels[table.name](table) if panel.curves or table.name == "fig5"]
    across = {"fig4": 2, "fig5": len(OPTIONS)}.get(table.name, 3)
    return curves(title, facts, drawn, across) if drawn else None


# --- beside the paper --------------------------------------------------------------------------------


def _pairs(table: Table) -> Iterator[tuple[str, list[Pair]]]:
    """The APs of each stream, transductive and inductive."""
    for grid in table.grids:
        if table.name == "table4":
            for i, column in enumerate(grid.columns):
                yield f"{grid.title}, {column.removeprefix('AP ')}", _column(grid, i)
            continue
        for task in ("transductive", "inductive"):
            lines = [line for line in grid.lines if line.section.partition(",")[0] == task]
            yield f"{grid.title}, {task}", [_pair(line, grid.columns.index("AP")) for line in lines]


def _columns(table: Table) -> list[tuple[int, str]]:
    return list(enumerate(table.grids[0].columns)) if table.grids else []


def _column(grid: Grid, column: int) -> list[Pair]:
    return [_pair(line, column) for line in grid.lines]


def _pair(line: Line, column: int) -> Pair:
    value = line.values[column]
    return Pair(line.label, *value.here, *value.paper)


# --- curves ------------------------------------------------------------------------------------------


def _curve(line: Line, x: Sequence[float], name: str = "", columns: int | None = None) -> Curve:
    here = [value.here for value in line.values[:columns]]
    return Curve(
        name or line.label, x, [s.mean for s in here], [s.std for s in here], quiet="rules" in line.section
    )


def _recalls(table: Table) -> Iterator[Panel]:
    at = paper()["fig3"]["at"]
    for grid in table.grids:
        if grid.columns == tuple(recalls()):
            drawn = [_curve(line, at, columns=len(at)) for line in grid.lines]
            yield Panel(grid.title, drawn, "K", "Recall@K, %")


def _intervals(table: Table) -> Iterator[Panel]:
    for grid in table.grids:
        if grid.rank:
            for task in ("transductive", "inductive"):
                lines = [line for line in grid.lines if line.section.partition(",")[0] == task]
                drawn = [_curve(line, range(len(SETS))) for line in lines]
                yield Panel(f"{grid.title}, {task}", drawn, "quantile of the interval", "AP, %", SETS)


def _sweeps(table: Table) -> Iterator[Panel]:
    """A row of panels for each stream; one that has no curve yet keeps its place."""
    for grid in table.grids:
        for option, symbol in OPTIONS.items():
            lines = [line for line in grid.lines if line.section == option]
            x = [float(line.label.rpartition(" ")[2]) for line in lines]
            drawn = []
            for i, column in enumerate(grid.columns if lines else ()):
                found = [line.values[i].here for line in lines]
                name, y, std = column.removeprefix("AP "), [s.mean for s in found], [s.std for s in found]
                drawn.append(Curve(name, x, y, std, dashed=i > 0))
            yield Panel(f"{grid.title}: {symbol}", drawn, symbol, "AP, %")


def _times(table: Table) -> Iterator[Panel]:
    """The two ways to grow in one panel, and their laws."""
    drawn, laws = [], []
    for why in dict.fromkeys(line.section for grid in table.grids[:1] for line in grid.lines):
        lines = [line for line in table.grids[0].lines if line.section == why]
        x, y = ([line.values[i].here.mean for line in lines] for i in (0, 2))
        name, none = why, [nan] * len(x)
        if (law := power_law(x, y)) is not None:
            error = "" if isnan(law.error) else f" ± {law.error:.3f}"
            name = f"{why}: time ~ events^({law.exponent:.3f}{error})"
            laws.append(Curve("fitted", x, [law(size) for size in x], none, quiet=True, dashed=True))
        drawn.append(Curve(name, x, y, none))
    yield Panel("one epoch", drawn + laws, "training events", "seconds", log=True)
