"""What a table looks like, whatever format it is written in: headings, rows and cells of text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

DELTA = "Δ"


class Cell(NamedTuple):
    """The text of one cell, and its style: best, paper, up, down, even or none."""

    text: str
    style: str = ""


class Row(NamedTuple):
    """One row of cells; consecutive rows of the same section share a heading."""

    section: str
    label: str
    cells: tuple[Cell, ...]

    @property
    def full_label(self) -> str:
        """The label with its section, for formats without section headings."""
        return f"{self.section}: {self.label}" if self.section else self.label


@dataclass(frozen=True)
class Layout:
    """One grid of cells."""

    title: str
    header: tuple[str, ...]  # the first heads the labels
    rows: tuple[Row, ...]
    records: tuple[dict[str, Any], ...]  # the same content for programs; None for a missing number
    prose: bool = False  # cells hold text rather than numbers, and are aligned left

    @property
    def styles(self) -> set[str]:
        return {cell.style for row in self.rows for cell in row.cells}


@dataclass(frozen=True)
class Sheet:
    """Grids under a common title, with the notes a reader needs."""

    name: str
    title: str
    layouts: tuple[Layout, ...]
    notes: tuple[str, ...] = ()
    warning: str = ""  # set where the numbers are not meant to be the paper's

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield everything in it for programs."""
        scale = "quick" if self.warning else "full"
        for layout in self.layouts:
            for record in layout.records:
                yield {"item": self.name, "part": layout.title, **record, "scale": scale}
