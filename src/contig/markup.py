"""HTML for notebooks: facts and tables, escaped and without styles of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape


def facts(title: str, values: Mapping[str, object], notes: Iterable[str] = ()) -> str:
    """Return a title, a table of names and values, and notes below it."""
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th>'
        f'<td style="text-align:left">{escape(str(value))}</td></tr>'
        for name, value in values.items()
    )
    return f"<div><b>{escape(title)}</b><table>{rows}</table>{_notes(notes)}</div>"


def table(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[object]], notes: Iterable[str] = ()
) -> str:
    """Return a title, a table with a row of headings, and notes below it."""
    head = "".join(f"<th>{escape(name)}</th>" for name in headings)
    body = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    return f"<div><b>{escape(title)}</b><table><tr>{head}</tr>{body}</table>{_notes(notes)}</div>"


def _notes(notes: Iterable[str]) -> str:
    return "".join(f"<div><small>{escape(note)}</small></div>" for note in notes)
