"""Text files of rows and fields, plain or gzipped: their first lines, a fast reader, and line numbers.

A gzipped file that turns out to be a decompression bomb is rejected (see ``contig.data.readers.limits``).
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as arrow_csv

from contig.data.readers.limits import size_limit, too_large
from contig.data.readers.opened import READ_ERRORS, read_errors
from contig.errors import DataError

HEAD_BYTES = 1 << 16  # usually enough lines to detect the format
MAX_HEAD_BYTES = 1 << 26  # to look for the first two lines with content: long comments, very wide rows
BLOCK_BYTES = 1 << 22  # what one thread parses at a time: larger gains nothing, smaller leaves many chunks
MAX_BLOCK_BYTES = 1 << 30  # a row must fit into one block
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
GZIP_MAGIC = b"\x1f\x8b"
DELIMITERS = (",", ";", "|", "\t")  # of csv files; Excel writes semicolons in many countries
MIN_COLUMNS = 3  # source, destination and time


def open_bytes(path: Path) -> pa.NativeFile:
    """Open a file for reading; a gzipped one is decompressed."""
    return pa.input_stream(str(path), compression="gzip" if _is_gzipped(path) else None)


def _is_gzipped(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(GZIP_MAGIC)) == GZIP_MAGIC


def decompressed(path: Path) -> bytes:
    """Read a whole file, up to the limit for compressed files."""
    limit = size_limit(path.stat().st_size)
    with open_bytes(path) as file:
        blocks = []
        while block := file.read(BLOCK_BYTES):
            blocks.append(block)
            if len(blocks) * BLOCK_BYTES > limit:
                raise too_large(path, limit)
    return b"".join(blocks)


def read_head(path: Path) -> list[str]:
    """Return the first lines of a text file, at least one of them not blank."""
    with read_errors(path, "it is damaged or cannot be opened."), open_bytes(path) as file:
        lines = _first_lines(path, file)
    head = [_decoded(path, number, line) for number, line in enumerate(lines, start=1)]
    if not any(line.strip() for line in head):
        raise DataError(f"{path}: the file is empty, without even a header; check how it was written.")
    return head


def _first_lines(path: Path, file: pa.NativeFile) -> list[bytes]:
    """Read whole lines until two of them, a header and an event, are neither blank nor comments."""
    data, size = b"", HEAD_BYTES
    while size <= MAX_HEAD_BYTES:
        while len(data) < size and (more := file.read(size - len(data))):
            data += more
        if b"\0" in data:
            raise DataError(f"{path}: this is binary data, not text; use a text file in UTF-8, or Parquet.")
        lines = data.removeprefix(BYTE_ORDER_MARK).splitlines(keepends=True)
        if len(data) < size:
            return lines
        whole = lines[:-1]  # the last is most likely cut short
        if sum(bool(line.strip()) and not line.lstrip().startswith(b"#") for line in whole) >= 2:
            return whole
        size *= 4
    raise DataError(
        f"{path}: there are no two lines in its first {MAX_HEAD_BYTES >> 20} MiB; it is not a file of events."
    )


def leading_blanks(head: Sequence[str]) -> int:
    """Return the number of blank lines before the first that is not."""
    return next(i for i, line in enumerate(head) if line.strip())


def find_delimiter(line: str) -> str:
    """Return the first of comma, semicolon, bar and tab that divides a line into enough columns."""
    for delimiter in DELIMITERS:
        if len(next(csv.reader([line], delimiter=delimiter))) >= MIN_COLUMNS:
            return delimiter
    return DELIMITERS[0]


@dataclass(frozen=True)
class TextFile:
    """A text file of known layout: a fast reader, and a slow one that finds line numbers."""

    path: Path
    delimiter: str | None  # None: any run of blanks, and # starts a comment line
    skip: int  # lines before the first event
    width: int

    def read(self, columns: Sequence[int], types: Mapping[int, pa.DataType]) -> pa.Table:
        """Read these columns, each as its type."""
        block = BLOCK_BYTES
        while True:
            try:
                return self._read(columns, types, block)
            except pa.ArrowInvalid as error:
                if "straddling" not in str(error) or block >= MAX_BLOCK_BYTES:
                    raise
            block *= 8  # a row is longer than a block

    def _read(self, columns: Sequence[int], types: Mapping[int, pa.DataType], block: int) -> pa.Table:
        options = {
            "read_options": arrow_csv.ReadOptions(
                column_names=[str(i) for i in range(self.width)], skip_rows=self.skip, block_size=block
            ),
            "parse_options": arrow_csv.ParseOptions(
                delimiter=self.delimiter or " ", quote_char='"' if self.delimiter else False
            ),
            "convert_options": arrow_csv.ConvertOptions(
                include_columns=[str(i) for i in columns],
                column_types={str(i): kind for i, kind in types.items()},
            ),
        }
        if self.delimiter is None:
            return arrow_csv.read_csv(pa.BufferReader(_single_blanks(decompressed(self.path))), **options)
        if not _is_gzipped(self.path):
            return arrow_csv.read_csv(open_bytes(self.path), **options)
        limit = size_limit(self.path.stat().st_size)
        reader = arrow_csv.open_csv(open_bytes(self.path), **options)
        batches: list[pa.RecordBatch] = []
        for batch in reader:  # one for each block
            batches.append(batch)
            if len(batches) * block > limit:
                raise too_large(self.path, limit)
        return pa.Table.from_batches(batches, reader.schema)

    def lines(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the line number (from 1) and the fields of every row."""
        with open_bytes(self.path) as raw:
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
        """Say where an event is: its line, if that can be found."""
        try:
            line = next(islice(self.lines(), row, None))[0]
        except (StopIteration, *READ_ERRORS):
            return f"{self.path}, event {row + 1}"
        return f"{self.path}, line {line}"


def _decoded(path: Path, number: int, line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        byte = f"0x{line[error.start]:02x}"
        raise DataError(
            f"{path}, line {number}: byte {byte} is not UTF-8 text; save the file as UTF-8."
        ) from None


def _single_blanks(data: bytes) -> bytes:
    """Remove comments, and put one blank between the fields of whitespace-separated lines."""
    if b"#" in data:
        data = re.sub(rb"(?m)^[ \t]*#[^\r\n]*", b"", data)
    data = data.removeprefix(BYTE_ORDER_MARK).replace(b"\r\n", b"\n").replace(b"\t", b" ")
    while b"  " in data:
        data = data.replace(b"  ", b" ")
    return data.replace(b" \n", b"\n").replace(b"\n ", b"\n").strip(b" ")
