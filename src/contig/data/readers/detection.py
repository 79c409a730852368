"""The form of a text file, told from its first lines."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from contig.data.columns import shortened
from contig.data.readers.names import plain_name
from contig.data.readers.opened import read_errors
from contig.data.readers.roles import ALIASES
from contig.data.validation import is_number, no_events
from contig.errors import DataError

HEAD_BYTES = 1 << 16  # enough lines to tell the form
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
JODIE_COLUMNS = ("user_id", "item_id", "timestamp", "state_label")
SNAP_COLUMNS = ("src", "dst", "t")


def open_bytes(path: Path, gzipped: bool) -> pa.NativeFile:
    return pa.input_stream(str(path), compression="gzip" if gzipped else None)


def read_head(path: Path, gzipped: bool) -> list[str]:
    """The first lines of a text file, one of them at least not blank."""
    with read_errors(path, "it is damaged or cannot be opened."), open_bytes(path, gzipped) as file:
        data = file.read(HEAD_BYTES)
    if b"\0" in data:
        raise DataError(f"{path}: this is binary data, not text; give a text file in UTF-8, or Parquet.")
    lines = data.removeprefix(BYTE_ORDER_MARK).splitlines(keepends=True)
    if len(data) == HEAD_BYTES and len(lines) > 1:
        del lines[-1]  # most likely cut short
    head = [_decoded(path, number, line) for number, line in enumerate(lines, start=1)]
    if not any(line.strip() for line in head):
        raise DataError(f"{path}: the file is empty; a stream needs at least one event.")
    return head


def _decoded(path: Path, number: int, line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        byte = f"0x{line[error.start]:02x}"
        raise DataError(
            f"{path}, line {number}: byte {byte} is not UTF-8 text; save the file as UTF-8."
        ) from None


def sniff(path: Path, head: Sequence[str]) -> str:
    """The form of a text file by its first lines; a suffix of .tsv or .csv settles the rest."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    lines = [line for line in head if line.strip() and not line.lstrip().startswith("#")]
    if not lines:
        return "snap"
    if ".tsv" in suffixes:
        return "tsv"
    if ".csv" not in suffixes and "," not in lines[0]:
        names = lines[0].rstrip("\r\n").split("\t")
        return "tsv" if len(names) > 1 and not any(is_number(name) for name in names) else "snap"
    return "jodie" if _is_jodie(lines) else "csv"


def _is_jodie(lines: Sequence[str]) -> bool:
    """Whether the header says so, or its columns are those of JODIE and the events have more fields."""
    header = [plain_name(name) for name in next(csv.reader([lines[0]]))]
    if header[-1].startswith("comma_separated_list"):
        return True
    wider = len(lines) > 1 and len(next(csv.reader([lines[1]]), [])) > len(header)
    roles = ("src", "dst", "t", "label")
    in_order = all(name in ALIASES[role] for name, role in zip(header, roles, strict=False))
    return wider and in_order and len(header) >= len(roles)


def jodie_names(path: Path, line: int, rows: Sequence[Sequence[str]]) -> list[str]:
    """What the columns of a JODIE file are called, whose header does not name its features.

    ``rows`` are the first ones, the header among them, which stands at ``line``.
    """
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
