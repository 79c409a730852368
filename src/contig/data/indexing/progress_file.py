"""What an index under construction has finished, so that an interrupted build resumes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from contig.errors import ContigError
from contig.files import write_json
from contig.schema import Record, decode, encode, read_versioned

SCHEMA = 1
FILE = "progress.json"


@dataclass(frozen=True, kw_only=True, eq=False)
class SourceFile(Record):
    """A file that is indexed, as it was when the build began."""

    path: str
    size: int
    modified: int  # nanoseconds

    @classmethod
    def of(cls, path: Path) -> SourceFile:
        found = path.stat()
        return cls(path=str(path.resolve()), size=found.st_size, modified=found.st_mtime_ns)


@dataclass(frozen=True, kw_only=True, eq=False)
class BuildRequest(Record):
    """What is indexed and how; a build resumes only if nothing of it has changed."""

    files: tuple[SourceFile, ...]
    reading: str  # the reading options, as JSON


@dataclass(frozen=True, kw_only=True, eq=False)
class StreamFacts(Record):
    """What is known once all files have been checked and the nodes are numbered."""

    events: int
    width: int  # features per event
    has_label: bool
    whole_times: bool  # int64, or float64
    bipartite: bool
    sources: int  # nodes before the destinations in a bipartite stream; otherwise all of them
    nodes: int
    text_length: int  # of the longest id; 0 for integers
    dates: bool  # whether the times were dates
    cuts: tuple[str, ...]  # times (in SQL) at which the events are divided into parts, each sorted at once


@dataclass(frozen=True, kw_only=True, eq=False)
class BuildProgress(Record):
    """The content of ``progress.json``."""

    request: BuildRequest
    facts: StreamFacts | None = None
    ids_written: bool = False
    parts: int = 0  # sorted parts whose events are written
    events: int = 0  # in these parts
    nodes_placed: int = 0  # nodes whose entries are written
    entries: int = 0  # of these nodes
    moving: tuple[str, ...] = ()  # the complete files, once they are being moved to the folder of the index

    def save(self, folder: Path) -> None:
        write_json(folder / FILE, {"schema": SCHEMA, **encode(self)}, durable=True)


def read_progress(folder: Path) -> BuildProgress | None:
    """Read the progress of a build; None if there is none, or none that can be used."""
    path = folder / FILE
    if not path.exists():
        return None
    try:
        return decode(BuildProgress, read_versioned(path, SCHEMA, lambda content: content), path)
    except ContigError:
        return None
