"""Tables as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from contig.reproduction.tables.layout import Cell, Sheet

BOLD = "Bold marks the best result."


def as_markdown(sheet: Sheet) -> str:
    """Write a sheet as a Markdown table for each grid, the best numbers in bold."""
    parts = [f"# {sheet.title}\n"] + ([f"\n**{sheet.warning}**\n"] if sheet.warning else [])
    for layout in sheet.layouts:
        side = "---" if layout.prose else "---:"
        separator = ["---", *[side] * (len(layout.header) - 1)]
        parts += [f"\n## {layout.title}\n\n", _row(layout.header), _row(separator)]
        parts += [_row([row.full_label, *map(_cell, row.cells)]) for row in layout.rows]
    bold = [BOLD] if any("best" in layout.styles for layout in sheet.layouts) else []
    return "".join([*parts, *(f"\n{note}\n" for note in (*sheet.notes, *bold))])


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _cell(cell: Cell) -> str:
    return f"**{cell.text}**" if cell.style == "best" else cell.text
