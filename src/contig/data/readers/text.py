"""Text files: CSV, TSV, JODIE and SNAP, read fast and, where that fails, line by line to say why."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from contig.data.columns import is_text, shortened
from contig.data.readers.detection import (
    BYTE_ORDER_MARK,
    SNAP_COLUMNS,
    jodie_names,
    open_bytes,
    read_head,
    sniff,
)
from contig.data.readers.opened import READ_ERRORS, OpenedTable, Roles, read_errors
from contig.data.validation import is_number, no_events
from contig.errors import DataError

BLOCK_BYTES = 1 << 22  # what one thread parses at a time: larger gains nothing, smaller leaves many chunks
MISSING_WORDS = set(arrow_csv.ConvertOptions().null_values)


def open_text(path: Path, format: str | None, *, gzipped: bool, positional: bool) -> OpenedTable:
    """A text file; ``positional`` says that it has no header."""
    head = read_head(path, gzipped)
    blank = next(i for i, line in enumerate(head) if line.strip())  # lines before the first that is not
    form = format or sniff(path, head[blank:])
    if form == "snap":
        return _open_snap(path, gzipped, head)
    delimiter = "\t" if form == "tsv" else ","
    rows = [fields for fields in csv.reader(head[blank:], delimiter=delimiter) if fields]
    if form == "jodie":
        names = jodie_names(path, blank + 1, rows)
        return _source(TextFile(path, gzipped, delimiter, blank + 1, len(names)), names, rows[1:])
    if positional:
        names = [str(i) for i in range(len(rows[0]))]
        text = TextFile(path, gzipped, delimiter, blank, len(names))
        return _source(text, names, rows, has_header=False)
    names = [name.strip() for name in rows[0]]
    return _source(TextFile(path, gzipped, delimiter, blank + 1, len(names)), names, rows[1:])


def _open_snap(path: Path, gzipped: bool, head: Sequence[str]) -> OpenedTable:
    rows = [fields for line in head if (fields := line.split()) and not fields[0].startswith("#")]
    if not rows:
        raise no_events(path)
    width = len(rows[0])
    names = SNAP_COLUMNS if width == len(SNAP_COLUMNS) else [str(i) for i in range(width)]
    return _source(TextFile(path, gzipped, None, 0, width), names, rows, has_header=False)


@dataclass(frozen=True)
class TextFile:
    """A text file, its form known: the fast reader and the slow one that finds line numbers."""

    path: Path
    gzipped: bool
    delimiter: str | None  # None: any run of blanks, and # starts a comment line
    skip: int  # lines before the first event
    width: int

    def read(self, columns: Sequence[int], types: Mapping[int, pa.DataType]) -> pa.Table:
        """These columns as a table; what has no type is inferred over the whole file."""
        data = open_bytes(self.path, self.gzipped)
        return arrow_csv.read_csv(
            data if self.delimiter else pa.BufferReader(_single_blanks(data.read())),
            read_options=arrow_csv.ReadOptions(
                column_names=[str(i) for i in range(self.width)],
                skip_rows=self.skip,
                block_size=BLOCK_BYTES,
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=self.delimiter or " ", quote_char='"' if self.delimiter else False
            ),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=[str(i) for i in columns],
                column_types={str(i): kind for i, kind in types.items()},
            ),
        )

    def lines(self) -> Iterator[tuple[int, list[str]]]:
        """Line number (from 1) and fields of every row, one by one."""
        with open_bytes(self.path, self.gzipped) as raw:
            text = io.TextIOWrapper(raw, encoding="utf-8-sig", errors="backslashreplace", newline="")
            if self.delimiter is None:
                rows = enumerate((line.split() for line in text), start=1)
                yield from ((n, fields) for n, fields in rows if fields and not fields[0].startswith("#"))
                return
            reader = csv.reader(islice(text, self.skip, None), delimiter=self.delimiter)
            first = self.skip + 1
            for fields in reader:
                if fields:
                    yield first, fields
                first = self.skip + reader.line_num + 1

    def place(self, row: int) -> str:
        """Where an event stands: its line, where that can be found."""
        try:
            line = next(islice(self.lines(), row, None))[0]
        except (StopIteration, *READ_ERRORS):
            return f"{self.path}, event {row + 1}"
        return f"{self.path}, line {line}"


def _single_blanks(data: bytes) -> bytes:
    """Whitespace-separated lines with one blank between fields and no comments."""
    if b"#" in data:
        data = re.sub(rb"(?m)^[ \t]*#[^\r\n]*", b"", data)
    data = data.removeprefix(BYTE_ORDER_MARK).replace(b"\r\n", b"\n").replace(b"\t", b" ")
    while b"  " in data:
        data = data.replace(b"  ", b" ")
    return data.replace(b" \n", b"\n").replace(b"\n ", b"\n").strip(b" ")


def _source(
    text: TextFile, names: Sequence[str], rows: Sequence[Sequence[str]], *, has_header: bool = True
) -> OpenedTable:
    """The file as a source; ``rows`` are its first events."""

    def load(roles: Roles) -> pa.Table:
        try:
            return _load(text, roles, rows)
        except READ_ERRORS as error:
            raise _diagnosis(text, opened, roles, error) from error

    opened = OpenedTable(str(text.path), names, load, text.place, has_header=has_header)
    return opened


def _load(text: TextFile, roles: Roles, rows: Sequence[Sequence[str]]) -> pa.Table:
    ids = (roles.src, roles.dst)
    only_features = [i for i in roles.features if i not in (*ids, roles.t, roles.label)]
    types = dict.fromkeys(only_features, pa.float64())
    types |= {i: pa.string() for i in ids if _holds_text(rows[:100], i)}
    table = text.read(roles.positions, types)
    misread = [i for i in ids if _loses_ids(table.column(str(i)))]
    if not misread:
        return table
    return text.read(roles.positions, types | dict.fromkeys(misread, pa.string()))


def _holds_text(rows: Sequence[Sequence[str]], column: int) -> bool:
    """Whether these rows hold ids that are no numbers, or only by chance: 007, 0x1f."""
    fields = {row[column].strip() for row in rows if len(row) > column} - MISSING_WORDS
    return any(re.match(r"[+-]?0[0-9xX]", field) or not is_number(field) for field in fields)


def _loses_ids(column: pa.ChunkedArray) -> bool:
    """Whether the type inferred for an id column (true/false, dates, 20-digit numbers) would lose ids."""
    kind = column.type
    if pa.types.is_floating(kind):
        return bool(pc.any(pc.greater_equal(pc.abs(column), 2.0**53)).as_py())
    return not (pa.types.is_integer(kind) or is_text(kind))


def _diagnosis(text: TextFile, opened: OpenedTable, roles: Roles, error: Exception) -> DataError:
    """Why the fast reader gave up: a value that does not fit its column, else a line of another width."""
    as_it_stands = dict.fromkeys(roles.positions, pa.binary())
    try:
        opened.columns(roles, text.read(roles.positions, as_it_stands))
    except DataError as found:
        return found
    except READ_ERRORS:
        pass
    line = 0
    with read_errors(text.path, "it is damaged or no text file."):
        for line, fields in text.lines():
            if len(fields) != text.width:
                return DataError(
                    f"{text.path}, line {line}: {len(fields)} fields where {text.width} are expected "
                    f"({shortened(repr(','.join(fields)))}); complete the line or remove it."
                )
    if not line:
        return no_events(text.path)
    return DataError(f"{text.path}: cannot be read as text ({str(error)[:300]}); check the file.")
