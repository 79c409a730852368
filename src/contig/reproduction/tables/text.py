"""Tables as plain text."""

from __future__ import annotations

from collections.abc import Sequence

from contig.reproduction.tables.layout import Layout, Sheet


def as_text(sheet: Sheet) -> str:
    """Write a sheet as aligned columns for a terminal."""
    parts = [f"{sheet.title}\n", *([f"{sheet.warning}\n"] if sheet.warning else [])]
    for layout in sheet.layouts:
        parts += [f"\n{layout.title}\n", _aligned(layout)]
    notes = [f"  {note}\n" for note in sheet.notes]
    return "".join([*parts, *(["\n"] if notes else []), *notes])


def _aligned(layout: Layout) -> str:
    rows = [[row.label, *(cell.text for cell in row.cells)] for row in layout.rows]
    widths = [max(map(len, column)) for column in zip(layout.header, *rows, strict=True)]
    align = str.ljust if layout.prose else str.rjust

    def line(cells: Sequence[str]) -> str:
        rest = [align(cell, width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
        return "  ".join([f"  {cells[0].ljust(widths[0])}", *rest]).rstrip() + "\n"

    text, section = [line(layout.header), "  " + "─" * (sum(widths) + 2 * len(widths) - 2) + "\n"], ""
    for row, cells in zip(layout.rows, rows, strict=True):
        if row.section != section:
            text.append(f"  {row.section}\n")
            section = row.section
        text.append(line(cells))
    return "".join(text)
