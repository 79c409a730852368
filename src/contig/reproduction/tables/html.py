"""Tables as HTML elements for the report."""

from __future__ import annotations

from html import escape

from contig.reproduction.tables.layout import Cell, Layout


def as_html(layout: Layout) -> str:
    """Write one grid as a ``table`` element whose cells carry their style as a class."""
    header = "".join(f"<th>{escape(name)}</th>" for name in layout.header)
    kind = ' class="prose"' if layout.prose else ""
    caption = f"<caption>{escape(layout.title)}</caption>" if layout.title else ""
    parts, section = [f"<table{kind}>{caption}<thead><tr>{header}</tr></thead><tbody>"], ""
    for row in layout.rows:
        if row.section != section:
            span = len(row.cells) + 1
            parts.append(f'<tr class="section"><th colspan="{span}">{escape(row.section)}</th></tr>')
            section = row.section
        parts.append(f"<tr><th>{escape(row.label)}</th>{''.join(map(_cell, row.cells))}</tr>")
    return "".join([*parts, "</tbody></table>"])


def _cell(cell: Cell) -> str:
    kind = f' class="{cell.style}"' if cell.style else ""
    return f"<td{kind}>{escape(cell.text)}</td>"
