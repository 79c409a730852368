"""Tables as LaTeX."""

from __future__ import annotations

from collections.abc import Sequence

from contig.reproduction.tables.layout import DELTA, Cell, Layout, Sheet

_ESCAPES = {
    "&": r"\&",
    "%": r"\%",
    "_": r"\_",
    "#": r"\#",
    "$": r"\$",
    "{": r"\{",
    "}": r"\}",
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    DELTA: r"$\Delta$",
}


def escape(text: str) -> str:
    """Escape what LaTeX would read as a command."""
    return "".join(_ESCAPES.get(letter, letter) for letter in text)


def as_latex(sheet: Sheet) -> str:
    """Write a sheet as a ``table`` for each grid, for a document that loads booktabs."""
    parts = [f"% {sheet.title}\n"] + ([f"% {sheet.warning}\n"] if sheet.warning else [])
    for layout in sheet.layouts:
        caption = " ".join(filter(None, [f"{sheet.title}: {layout.title}.", sheet.warning]))
        parts += ["\\begin{table}\n\\centering\n", f"\\caption{{{escape(caption)}}}\n"]
        parts += [_tabular(layout), "\\end{table}\n"]
    return "".join([*parts, *(f"% {note}\n" for note in sheet.notes)])


def _tabular(layout: Layout) -> str:
    columns = "l" + ("l" if layout.prose else "r") * (len(layout.header) - 1)
    rows = [_row([escape(row.full_label), *map(_cell, row.cells)]) for row in layout.rows]
    head = [f"\\begin{{tabular}}{{{columns}}}\n\\toprule\n", _row([escape(name) for name in layout.header])]
    return "".join([*head, "\\midrule\n", *rows, "\\bottomrule\n\\end{tabular}\n"])


def _row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + " \\\\\n"


def _cell(cell: Cell) -> str:
    text = escape(cell.text)
    return f"\\textbf{{{text}}}" if cell.style == "best" else text
