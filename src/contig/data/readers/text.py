"""Text formats: CSV, TSV, JODIE and SNAP, read fast and, if that fails, line by line to say why."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from contig.data.columns import shortened
from contig.data.numbers import is_number
from contig.data.read_options import ReadOptions
from contig.data.readers.opened import READ_ERRORS, OpenedTable, Roles, read_errors
from contig.data.readers.text_file import TextFile, find_delimiter, leading_blanks, read_head
from contig.data.validation import no_events
from contig.errors import DataError
from contig.wording import counted

JODIE_COLUMNS = ("user_id", "item_id", "timestamp", "state_label")
SNAP_COLUMNS = ("src", "dst", "t")
MISSING_WORDS = pa.array(sorted(set(arrow_csv.ConvertOptions().null_values)))
LOOKS_NUMERIC = r"^[+-]?0[0-9xX]|^-0$"  # ids that a conversion to numbers would merge: 007 and 7, 0x1f and 31

Rows = Sequence[Sequence[str]]


def open_csv(path: Path, reading: ReadOptions) -> OpenedTable:
    """Open a file of values between commas, semicolons or bars.

    It has no header if columns are given by position.
    """
    return _open_separated(path, None, reading)


def open_tsv(path: Path, reading: ReadOptions) -> OpenedTable:
    """Open a tab-separated file; it has no header if columns are given by position."""
    return _open_separated(path, "\t", reading)


def open_jodie(path: Path, reading: ReadOptions) -> OpenedTable:
    """Open a JODIE file: user, item, time, label and features, under a header that names no feature."""
    head = read_head(path)
    blank, rows = _split_rows(head, ",")
    names = _jodie_names(path, blank + 1, rows)
    return _open(TextFile(path, ",", blank + 1, len(names)), names)


def open_snap(path: Path, reading: ReadOptions) -> OpenedTable:
    """Open a SNAP file: source, destination and time between blanks, and comments after #."""
    rows = [fields for line in read_head(path) if (fields := line.split()) and not fields[0].startswith("#")]
    if not rows:
        raise no_events(path)
    width = len(rows[0])
    names = SNAP_COLUMNS if width == len(SNAP_COLUMNS) else [str(i) for i in range(width)]
    return _open(TextFile(path, None, 0, width), names, has_header=False)


def _open_separated(path: Path, delimiter: str | None, reading: ReadOptions) -> OpenedTable:
    head = read_head(path)
    delimiter = delimiter or find_delimiter(head[leading_blanks(head)])
    blank, rows = _split_rows(head, delimiter)
    if reading.positional:
        names = [str(i) for i in range(len(rows[0]))]
        return _open(TextFile(path, delimiter, blank, len(names)), names, has_header=False)
    names = [name.strip() for name in rows[0]]
    return _open(TextFile(path, delimiter, blank + 1, len(names)), names)


def _split_rows(head: Sequence[str], delimiter: str) -> tuple[int, list[list[str]]]:
    """Return the number of leading blank lines, and the fields of the other lines."""
    blank = leading_blanks(head)
    return blank, [fields for fields in csv.reader(head[blank:], delimiter=delimiter) if fields]


def _jodie_names(path: Path, line: int, rows: Rows) -> list[str]:
    """Name the columns of a JODIE file; ``rows`` are its first, and the header is at ``line``."""
    header, *events = rows
    if all(is_number(name) for name in header):
        raise DataError(
            f"{path}, line {line}: this is an event where JODIE files have a header; add a header "
            "line, or give format='csv' and the columns by position."
        )
    if not events:
        raise no_events(path)
    width = len(events[0])
    if width < len(JODIE_COLUMNS):
        raise DataError(
            f"{path}: the first event has {width} fields ({shortened(repr(','.join(events[0])))}); a JODIE "
            "file has user, item, time, label and then features. For another layout give format='csv' and "
            "the columns."
        )
    features = [f"f{i}" for i in range(1, width - len(JODIE_COLUMNS) + 1)]
    if len(features) == 1 and not any("".join(row[4:]).strip() for row in events):
        features = [""]  # a trailing comma, not a feature
    return [*JODIE_COLUMNS, *features]


# --- loading -----------------------------------------------------------------------------------------


def _open(text: TextFile, names: Sequence[str], *, has_header: bool = True) -> OpenedTable:
    """Describe the file as a table."""

    def load(roles: Roles) -> pa.Table:
        try:
            return _load(text, roles)
        except READ_ERRORS as error:
            raise _diagnosis(text, opened, roles, error) from error

    opened = OpenedTable(str(text.path), names, load, text.place, has_header=has_header)
    return opened


def _load(text: TextFile, roles: Roles) -> pa.Table:
    """Read ids, times and labels as they are written, so that nothing is lost before it is validated."""
    ids, others = (roles.src, roles.dst), (roles.t, roles.label, *(roles.features if roles.raw else ()))
    types = {i: pa.string() if i in (*ids, *others) else pa.float64() for i in roles.positions}
    table = text.read(roles.positions, types)
    columns = []
    for i, column in zip(roles.positions, table.columns, strict=True):
        written = pc.utf8_trim_whitespace(column) if types[i] == pa.string() else column
        if i in ids:
            written = _parse_ids(written)
        elif i in others:
            written = _null_missing(written)
        columns.append(written)
    return pa.table(columns, names=table.column_names)


def _parse_ids(written: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return ids as numbers if that merges none of them, otherwise as the text they are."""
    suspicious = (pc.starts_with(written, pattern=prefix) for prefix in ("0", "-0", "+0"))
    if any(pc.any(found).as_py() for found in suspicious) and _merges(written):
        return written
    present = _null_missing(written)
    if present.null_count == len(present):
        return written
    for kind in (pa.int64(), pa.float64()):
        try:
            numbers = present.cast(kind)
        except pa.ArrowInvalid:
            continue
        if kind == pa.int64() or not pc.any(pc.greater_equal(pc.abs(numbers), 2.0**53)).as_py():
            return numbers
    return written


def _merges(written: pa.ChunkedArray) -> bool:
    return bool(pc.any(pc.match_substring_regex(written, LOOKS_NUMERIC)).as_py())


def _null_missing(written: pa.ChunkedArray) -> pa.ChunkedArray:
    missing = pc.is_in(written, value_set=MISSING_WORDS)
    if not pc.any(missing).as_py():
        return written
    return pc.if_else(missing, pa.scalar(None, written.type), written)


def _diagnosis(text: TextFile, opened: OpenedTable, roles: Roles, error: Exception) -> DataError:
    """Say why the fast reader failed: a value that does not fit its column, or a line of another width."""
    as_written = dict.fromkeys(roles.positions, pa.binary())
    try:
        opened.columns(roles, text.read(roles.positions, as_written))
    except DataError as found:
        return found
    except READ_ERRORS:
        pass
    line = 0
    with read_errors(text.path, "it is damaged or not a text file."):
        for line, fields in text.lines():
            if len(fields) != text.width:
                return DataError(
                    f"{text.path}, line {line}: {counted(len(fields), 'field')}, expected {text.width} "
                    f"({shortened(repr(','.join(fields)))}); complete the line or remove it."
                )
    if not line:
        return no_events(text.path)
    return DataError(f"{text.path}: cannot be read as text ({str(error)[:300]}); check the file.")
