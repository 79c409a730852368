"""Result tables as LaTeX."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contig.cli import outputs
from contig.files import write_text

if TYPE_CHECKING:
    from contig.reproduction.tables.layout import Layout
    from contig.tasks import ResultTable

LatexFile = Annotated[
    Path | None,
    typer.Option("--latex", metavar="FILE.tex", help="Also write the table as LaTeX (with booktabs)."),
]


def check_file(path: Path | None) -> None:
    """Reject a file that cannot be written, or whose extension promises another format."""
    outputs.check_file("--latex", path, ".tex")


def write(path: Path, tables: Mapping[str, ResultTable]) -> None:
    """Write tables, by title, to a file."""
    with outputs.writing(path):
        write_text(path, as_latex(tables))


def as_latex(tables: Mapping[str, ResultTable]) -> str:
    """Return a LaTeX ``table`` for each result table; the notes follow as comments."""
    from contig.reproduction.tables.latex import as_latex
    from contig.reproduction.tables.layout import Sheet

    layouts = tuple(_layout(title, table) for title, table in tables.items())
    notes = tuple(dict.fromkeys(note for table in tables.values() for note in table.notes))
    return as_latex(Sheet(name="results", title="Results", layouts=layouts, notes=notes))


def _layout(title: str, table: ResultTable) -> Layout:
    from contig.reproduction.tables.layout import Cell, Layout, Row

    rows = []
    for cells in table.rows:
        *section, label = cells[: table.names]
        rows.append(Row(", ".join(section), label, tuple(Cell(text) for text in cells[table.names :])))
    *_, named = table.headings[: table.names]
    header = (named, *table.headings[table.names :])
    return Layout(title=title, header=header, rows=tuple(rows), records=())
