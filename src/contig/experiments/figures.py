"""The figures of a reproduction, drawn from the numbers of its tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import isnan, nan
from typing import TYPE_CHECKING

from contig.experiments.findings import OPTIONS, recalls
from contig.experiments.grids import Grid, Line, Table
from contig.experiments.paper import paper
from contig.experiments.scaling import power_law
from contig.plots import Curve, Pair, Panel, curves, pairs
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
    drawn = [panel for panel in panels[table.name](table) if panel.curves]
    return curves(title, facts, drawn) if drawn else None


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
    for option, symbol in OPTIONS.items():
        drawn = []
        for grid in table.grids:
            lines = [line for line in grid.lines if line.section == option]
            x = [float(line.label.rpartition(" ")[2]) for line in lines]
            for i, column in enumerate(grid.columns):
                found = [line.values[i].here for line in lines]
                name = f"{grid.title}, {column.removeprefix('AP ')}"
                y, std = [s.mean for s in found], [s.std for s in found]
                drawn.append(Curve(name, x, y, std, dashed="inductive" in name))
        yield Panel(f"{symbol} ({option})", [c for c in drawn if c.x], symbol, "AP, %")


def _times(table: Table) -> Iterator[Panel]:
    if not table.grids:
        return
    lines = table.grids[0].lines
    x = [line.values[0].here.mean for line in lines]
    y = [line.values[1].here.mean for line in lines]
    drawn = [Curve("measured", x, y, [nan] * len(x))]
    if (law := power_law(x, y)) is not None:
        error = "" if isnan(law.error) else f" ± {law.error:.3f}"
        name = f"time ~ events^({law.exponent:.3f}{error})"
        drawn.append(Curve(name, x, [law(size) for size in x], [nan] * len(x), quiet=True, dashed=True))
    yield Panel("one epoch", drawn, "training events", "seconds", log=True)
