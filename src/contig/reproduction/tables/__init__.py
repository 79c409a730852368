"""Tables of numbers next to the paper's, and the formats they are written in."""

from __future__ import annotations

from collections.abc import Callable

from contig.reproduction.tables.csv import as_csv
from contig.reproduction.tables.latex import as_latex
from contig.reproduction.tables.layout import Sheet
from contig.reproduction.tables.markdown import as_markdown
from contig.reproduction.tables.text import as_text

FORMATS: dict[str, Callable[[Sheet], str]] = {
    "txt": as_text,
    "md": as_markdown,
    "tex": as_latex,
    "csv": as_csv,
}
