"""An index: a folder with the columns of a stream and the index of its history, mapped into memory.

``index.json`` is written last and names every other file with its size and checksum: a folder without it is
not an index, whatever else it holds. A file is checked by its checksum where its size or its time of
modification is not as recorded, as in a copy of the folder.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from contig.data.columns import Array
from contig.data.events import COLUMNS, EventStream
from contig.data.ids import NodeIds
from contig.data.read_options import INDEX_OPTIONS, ReadOptions
from contig.errors import ConfigError, ContigError, DataError
from contig.files import disk_errors, link_or_copy, replacing, sha256, write_json
from contig.schema import Record, decode, encode, read_versioned

HEAD = "index.json"
BUILDING = "building"  # the folder of the files that are not complete yet
SCHEMA = 1
CURE = "Build the index again with 'contig index'."


@dataclass(frozen=True, kw_only=True, eq=False)
class IndexedFile(Record):
    """A file of an index as it was written."""

    size: int
    modified: int  # nanoseconds
    sha256: str

    @classmethod
    def of(cls, path: Path) -> IndexedFile:
        found = path.stat()
        return cls(size=found.st_size, modified=found.st_mtime_ns, sha256=sha256(path))

    def matches(self, path: Path) -> bool:
        """Return whether a file is as it was written; its checksum is computed where its time is another."""
        found = path.stat()
        if found.st_size != self.size:
            return False
        return found.st_mtime_ns == self.modified or sha256(path) == self.sha256


@dataclass(frozen=True, kw_only=True, eq=False)
class IndexHead(Record):
    """The content of ``index.json``."""

    origin: str
    events: int
    nodes: int
    files: dict[str, IndexedFile]
    request: str = ""  # what was indexed, and how
    dates: bool = False  # whether the times were dates
    reading: dict[str, Any] | None = None  # the columns that were named, for later files
    home: str = ""  # the index that the files are linked from; what is derived from them is stored there


def is_index(folder: Path) -> bool:
    return (folder / HEAD).is_file()


def is_index_folder(folder: Path) -> bool:
    """Return whether a folder is an index, complete or not."""
    return is_index(folder) or (folder / BUILDING).is_dir()


def read_head(folder: Path) -> IndexHead:
    """Read ``index.json``."""
    path = folder / HEAD
    if not path.is_file():
        raise DataError(
            f"{folder} is an index that was interrupted while it was built; resume it with the same "
            "'contig index' command."
        )
    try:
        return decode(IndexHead, read_versioned(path, SCHEMA, lambda content: content), path, CURE)
    except ContigError as error:
        raise DataError(str(error)) from error


def write_head(folder: Path, head: IndexHead) -> None:
    write_json(folder / HEAD, {"schema": SCHEMA, **encode(head)}, durable=True)


def read_index(folder: Path, reading: ReadOptions) -> EventStream:
    """Open an index as ``read_events`` does; of the options only ``features=False`` applies."""
    if not folder.is_dir():
        raise DataError(f"{folder} is a file; an index is a folder that 'contig index' makes.")
    given = set(reading.as_dict()) - {"format", "node_features", "data_dir"}
    if given - {"features"} or reading.feature_columns:
        known = sorted(given.intersection(INDEX_OPTIONS))
        cure = " Give it to 'contig index'." if known else ""
        name = known[0] if known else min(given)
        raise ConfigError(f"{folder} is an index, whose columns are fixed: {name!r} does not apply.{cure}")
    stream = open_index(folder)
    return replace(stream, edge_features=None) if reading.features is False else stream


def open_index(folder: Path) -> EventStream:
    """Open the stream of an index; its columns are read from disk as they are used."""
    head = read_head(folder)
    _verify(folder, head)

    def column(name: str) -> Array | None:
        return map_array(folder, name) if f"{name}.npy" in head.files else None

    columns: dict[str, Any] = {name: column(name) for name in COLUMNS}
    ids = NodeIds(map_array(folder, "ids"), column("is_dst"))
    if len(ids) != head.nodes or any(len(columns[name]) != head.events for name in ("src", "dst", "t")):
        raise DataError(f"{folder}: the columns do not have the lengths that {HEAD} says. {CURE}")
    read_as = None if head.reading is None else ReadOptions.from_dict(head.reading)
    return EventStream(ids=ids, origin=head.origin, dates=head.dates, read_as=read_as, **columns)


def map_array(folder: Path, name: str) -> Array:
    """Map an array of an index, to be read only."""
    try:
        array: Array = np.lib.format.open_memmap(folder / f"{name}.npy", mode="r")
    except Exception as error:  # numpy raises whatever its parser of a damaged header raises
        raise DataError(f"{folder / name}.npy cannot be opened ({error}). {CURE}") from error
    return array


def folder_of(stream: EventStream) -> Path | None:
    """Return the index that a stream is mapped from, unchanged and as a whole; None if there is none."""
    folder = _mapped_file(stream.src).parent
    for name in ("src", "dst", "t"):
        array = getattr(stream, name)
        if _mapped_file(array) != folder / f"{name}.npy" or not is_index(folder):
            return None
    return folder if read_head(folder).events == len(stream) else None


def is_mapped(stream: EventStream, name: str) -> bool:
    """Return whether a column is still that of the index that the stream is mapped from."""
    folder, array = _mapped_file(stream.src).parent, getattr(stream, name)
    return array is not None and _mapped_file(array) == folder / f"{name}.npy"


def _mapped_file(array: Array) -> Path:
    return Path(getattr(array, "filename", None) or "")


def link_index(stream: EventStream, folder: Path, target: Path) -> None:
    """Make an index of a stream's columns in another folder, of hard links: the events are not copied.

    Where the file system has none, the files are copied.
    """
    head = read_head(folder)
    dropped = {f"{name}.npy" for name in ("label", "edge_features") if not is_mapped(stream, name)}
    kept = {name: file for name, file in head.files.items() if name not in dropped}
    with disk_errors(target):
        target.mkdir(parents=True, exist_ok=True)
        for name in kept:
            (target / name).unlink(missing_ok=True)
            link_or_copy(str(folder / name), str(target / name))
    for name in ("label", "edge_features", "node_features"):
        array = getattr(stream, name)
        if array is not None and not is_mapped(stream, name):
            with replacing(target / f"{name}.npy") as part, part.open("wb") as file:
                np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)
            kept[f"{name}.npy"] = IndexedFile.of(target / f"{name}.npy")
    write_head(target, replace(head, files=kept, home=head.home or str(folder.resolve())))


def unlink_index(folder: Path) -> None:
    """Remove the files of an index from a folder, its head first."""
    files: Iterable[str] = read_head(folder).files
    (folder / HEAD).unlink()
    for name in files:
        (folder / name).unlink(missing_ok=True)
    for evidence in folder.glob("evidence-*"):
        shutil.rmtree(evidence, ignore_errors=True)


def _verify(folder: Path, head: IndexHead) -> None:
    for name, expected in head.files.items():
        path = folder / name
        if Path(name).name != name or not path.is_file():
            raise DataError(f"{path} is missing. {CURE}")
        if not expected.matches(path):
            raise DataError(f"{path} is damaged: it does not match its checksum. {CURE}")
