"""Tables of numbers: each of our results next to the paper's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isnan
from typing import Any, NamedTuple

from contig.experiments.rows import Spread
from contig.reproduction.stats import MISSING, Direction, compare, exact
from contig.reproduction.tables.layout import DELTA, Cell, Layout, Row, Sheet

EMPTY = "-"
HEURISTICS = "heuristics"


class Value(NamedTuple):
    """One of our numbers next to the paper's, in the unit they are printed in; NaN where there is none."""

    ours: Spread = MISSING
    paper: Spread = MISSING
    seeds: int = 0

    @property
    def difference(self) -> float:
        return self.ours.mean - self.paper.mean

    @property
    def direction(self) -> Direction:
        """Whether ours is above or below the paper's."""
        return compare(self.ours, self.paper)


class Line(NamedTuple):
    """The numbers of one model, variant or size."""

    label: str
    values: tuple[Value, ...]
    section: str = ""
    heuristic: bool = False  # listed below the models of its section, but competes with them
    excluded: bool = False  # differs from its paper or is measured on other events: no claim uses it
    known_nodes: bool = False  # measured only on events between nodes seen in training

    @property
    def heading(self) -> str:
        return ", ".join(filter(None, (self.section, HEURISTICS if self.heuristic else "")))


@dataclass(frozen=True)
class Grid:
    """A table of numbers, usually of one dataset."""

    title: str
    corner: str  # heads the labels
    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    digits: tuple[int, ...] = ()  # decimals of each column; 2 by default
    rank: bool = False  # mark the highest number of each section
    judged: bool = True  # more than the paper's is better, less is worse
    derived: bool = False  # computed from the other grids of its table
    signed: bool = False  # the numbers are differences

    def section(self, name: str) -> tuple[Line, ...]:
        """Return the lines of a section, heuristics included."""
        return tuple(line for line in self.lines if line.section == name)

    def models(self, section: str = "") -> dict[str, tuple[Value, ...]]:
        """Return the numbers of a section by label, without heuristics and excluded lines."""
        lines = [line for line in self.section(section) if not (line.heuristic or line.excluded)]
        return {line.label: line.values for line in lines}

    def layout(self) -> Layout:
        """Arrange the numbers, with the paper's and the difference where the paper has the column."""
        parts = [[c, "paper", DELTA] if self._has_paper(i) else [c] for i, c in enumerate(self.columns)]
        header = (self.corner, *(name for part in parts for name in part))
        return Layout(self.title, header, tuple(map(self._row, self.lines)), tuple(self._records()))

    def _has_paper(self, column: int) -> bool:
        return any(not isnan(line.values[column].paper.mean) for line in self.lines)

    def _row(self, line: Line) -> Row:
        cells = [cell for column in range(len(self.columns)) for cell in self._cells(line, column)]
        return Row(line.heading, line.label, tuple(cells))

    def _cells(self, line: Line, column: int) -> Iterator[Cell]:
        value, digits = line.values[column], self.digits[column] if self.digits else 2
        yield Cell(_format(value.ours, digits, self.signed), "best" if self._is_best(line, column) else "")
        if self._has_paper(column):
            yield Cell(_format(value.paper, digits, self.signed), "paper")
            style = value.direction if self.judged else ""
            yield Cell(_format(exact(value.difference), digits, signed=True), style)

    def _is_best(self, line: Line, column: int) -> bool:
        means = [other.values[column].ours.mean for other in self.section(line.section)]
        known = [mean for mean in means if not isnan(mean)]
        return self.rank and len(known) > 1 and line.values[column].ours.mean == max(known)

    def _records(self) -> Iterator[dict[str, Any]]:
        for line in self.lines:
            for column, value in zip(self.columns, line.values, strict=True):
                yield {"section": line.heading, "label": line.label, "measure": column, **_record(value)}


@dataclass(frozen=True)
class Table:
    """The grids of one of the paper's tables or figures."""

    name: str
    title: str
    grids: tuple[Grid, ...]
    notes: tuple[str, ...] = ()
    warning: str = ""  # set where the numbers are not meant to be the paper's

    @property
    def measured(self) -> tuple[Grid, ...]:
        return tuple(grid for grid in self.grids if not grid.derived)

    @property
    def derived(self) -> tuple[Grid, ...]:
        return tuple(grid for grid in self.grids if grid.derived)

    def sheet(self) -> Sheet:
        """Arrange it for printing."""
        layouts = tuple(grid.layout() for grid in self.grids)
        return Sheet(self.name, self.title, layouts, self.notes, self.warning)


def _format(spread: Spread, digits: int, signed: bool = False) -> str:
    if isnan(spread.mean):
        return EMPTY
    deviation = "" if isnan(spread.std) else f" ± {spread.std:.{digits}f}"
    mean = round(spread.mean, digits) + 0.0  # avoids -0.00
    return f"{mean:{'+' if signed else ''},.{digits}f}{deviation}"


def _record(value: Value) -> dict[str, float | None]:
    numbers = {
        "ours": value.ours.mean,
        "ours_std": value.ours.std,
        "seeds": value.seeds,
        "paper": value.paper.mean,
        "paper_std": value.paper.std,
        "difference": value.difference,
    }
    return {name: None if isnan(number) else number for name, number in numbers.items()}
