"""Tables as CSV."""

from __future__ import annotations

import csv
from io import StringIO

from contig.reproduction.tables.layout import Sheet


def as_csv(sheet: Sheet) -> str:
    """Write a line for each number with the paper's, unrounded, or for each row of text."""
    file = StringIO()
    records = list(sheet.records())
    writer = csv.DictWriter(file, list(records[0]) if records else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return file.getvalue()
