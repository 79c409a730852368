"""Readers by file format.

A reader is a function ``(path, ReadOptions)`` that returns an ``EventStream``, or a table whose columns
still have to be found: anything that exports an Arrow stream, or an ``OpenedTable``, which can name the
place of each row in error messages. A reader from outside the package is added with ``register_reader``,
or by an installed package's entry point in the group ``contig.readers``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from contig.data.read_options import ReadOptions
from contig.errors import ConfigError
from contig.registry import Registry

Reader = Callable[[Path, ReadOptions], Any]

TEXT_FORMATS = ("csv", "tsv", "jodie", "snap", "jsonl", "dyglib")


def _check(name: str, found: Any) -> None:
    if not callable(found):
        raise ConfigError(f"The reader {name!r} is of type {type(found).__name__}; expected a function.")


READERS: Registry[Reader] = Registry(
    "format",
    {
        "parquet": "contig.data.readers.parquet:open_parquet",
        **dict.fromkeys(("arrow", "feather"), "contig.data.readers.arrow:open_arrow"),
        **{name: f"contig.data.readers.text:open_{name}" for name in ("csv", "tsv", "jodie", "snap")},
        "jsonl": "contig.data.readers.json_lines:open_jsonl",
        "dyglib": "contig.data.readers.dyglib:read_dyglib",
        "index": "contig.data.index_folder:read_index",
    },
    "contig.readers",
    _check,
    "reader",
)


def register_reader(format: str, reader: Reader, *, replace: bool = False) -> None:
    """Read files of ``format`` with ``reader``.

    The reader is used for ``format=`` and ``--format``, and for files whose extension is the format's
    name: ``register_reader("mat", read)`` reads ``visits.mat``.
    """
    READERS.register(format, reader, replace=replace)
