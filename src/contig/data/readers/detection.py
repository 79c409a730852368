"""The format of a file, detected from its name and its first bytes."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from contig.data.index_folder import is_index_folder
from contig.data.numbers import is_number
from contig.data.readers import parquet
from contig.data.readers.names import plain_name
from contig.data.readers.registry import READERS
from contig.data.readers.roles import ALIASES
from contig.data.readers.text_file import find_delimiter, leading_blanks, read_head

AMBIGUOUS = ("csv", "tsv", "txt", "gz")  # extensions of files whose first lines decide
SAME_FORMAT = {"ndjson": "jsonl"}  # extensions with another name than their format


def detect_format(path: Path) -> str:
    """Return the name of the reader for a file or a folder."""
    if path.is_dir() and is_index_folder(path):
        return "index"
    if path.is_dir() or parquet.is_parquet(path):
        return "parquet"
    extension = path.suffix.removeprefix(".").lower()
    extension = SAME_FORMAT.get(extension, extension)
    if extension and extension not in AMBIGUOUS and extension in READERS:
        return extension
    head = read_head(path)
    return _text_format(path, head[leading_blanks(head) :])


def _text_format(path: Path, head: Sequence[str]) -> str:
    """Return the format of a text file by its first lines; .tsv or .csv in the name narrows it down."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    lines = [line for line in head if line.strip() and not line.lstrip().startswith("#")]
    if not lines:
        return "snap"
    if ".tsv" in suffixes:
        return "tsv"
    if lines[0].lstrip().startswith("{"):
        return "jsonl"
    if ".csv" not in suffixes and find_delimiter(lines[0]) not in (";", "|") and "," not in lines[0]:
        names = lines[0].rstrip("\r\n").split("\t")
        return "tsv" if len(names) > 1 and not any(is_number(name) for name in names) else "snap"
    if find_delimiter(lines[0]) != ",":
        return "csv"
    if _is_dyglib(path, lines):
        return "dyglib"
    return "jodie" if _is_jodie(lines) else "csv"


def _is_dyglib(path: Path, lines: Sequence[str]) -> bool:
    """Return whether the header is DyGLib's and the features are in a file next to it."""
    from contig.data.readers.dyglib import DYGLIB_COLUMNS, features_file

    header = tuple(name.strip() for name in next(csv.reader([lines[0]])))
    return header == DYGLIB_COLUMNS and features_file(path).is_file()


def _is_jodie(lines: Sequence[str]) -> bool:
    """Return whether the header is JODIE's, or has its columns in order and the events have more fields."""
    header = [plain_name(name) for name in next(csv.reader([lines[0]]))]
    if header[-1].startswith("comma_separated_list"):
        return True
    wider = len(lines) > 1 and len(next(csv.reader([lines[1]]), [])) > len(header)
    roles = ("src", "dst", "t", "label")
    in_order = all(name in ALIASES[role] for name, role in zip(header, roles, strict=False))
    return wider and in_order and len(header) >= len(roles)
