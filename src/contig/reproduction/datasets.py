"""The datasets of a study: complete, truncated to their first events, or synthetic."""

from __future__ import annotations

from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

import pyarrow.parquet as pq

from contig.data.datasets import find_dataset, open_stream
from contig.data.events import EventStream
from contig.data.read_options import ReadOptions
from contig.data.synthetic import synthetic
from contig.errors import ConfigError
from contig.files import replacing
from contig.locks import locked
from contig.reproduction.paper import published_datasets, published_size
from contig.wording import counted

FALLBACK = "collegemsg"  # small, and downloaded automatically
EVENTS_PER_SOURCE, SPAN = 20, 30 * 86_400.0  # the defaults of synthetic:N, the span in seconds


@dataclass(frozen=True)
class StudyDataset:
    """A dataset as a study uses it."""

    name: str  # the paper's name for it, where the paper uses it
    stream: EventStream
    data: str  # what the runs open: a name or a file
    reading: ReadOptions = ReadOptions()
    truncated: bool = False

    @property
    def labeled(self) -> bool:
        return self.stream.label is not None

    def describe(self) -> str:
        """Describe the size in one line."""
        stream = self.stream
        features = counted(stream.edge_width, "feature") if stream.edge_width else "no features"
        part = "first " if self.truncated else ""
        return f"{part}{counted(len(stream), 'event')}, {counted(stream.num_nodes, 'node')}, {features}"

    def differences(self) -> list[str]:
        """List where its size differs from the paper's."""
        theirs = published_size(self.name)
        if theirs is None:
            return [f"{self.name} is not used in the paper."]
        ours = {
            "events": len(self.stream),
            "nodes": self.stream.num_nodes,
            "features": self.stream.edge_width,
        }
        return [
            f"{self.name} has {count:,} {unit} here and {getattr(theirs, unit):,} in the paper."
            for unit, count in ours.items()
            if count != getattr(theirs, unit)
        ]


def available_datasets() -> list[str]:
    """List the paper's datasets that are on this machine; without any, a small one."""
    return [name for name in published_datasets() if find_dataset(name)] or [FALLBACK]


def parse_names(names: str) -> list[str]:
    """Split a comma-separated list of dataset names and files."""
    found = list(dict.fromkeys(name for name in map(str.strip, names.split(",")) if name))
    if not found:
        raise ConfigError(f"--datasets {names!r} is empty; use names or files, such as wikipedia,mooc.")
    return found


def open_dataset(name: str, events: int | None, folder: Path) -> StudyDataset:
    """Open a dataset by name or file.

    One with more than ``events`` events is truncated, and written to ``folder`` for the runs to read.
    """
    stream = open_stream(name)
    known = Path(name).name.partition(".")[0] if Path(name).suffix else name
    if events is None or len(stream) <= events:
        return StudyDataset(known, stream, name)
    path = folder / f"{known.replace(':', '-')}-first-{events}.parquet"
    return replace(_saved(known, stream[:events], path), truncated=True)


def growing_nodes_dataset(events: int) -> StudyDataset:
    """Return ``synthetic:EVENTS``, which has nodes in proportion to its events and a fixed time span."""
    name = f"synthetic:{events}"
    return StudyDataset(name, open_stream(name), name)


def fixed_nodes_dataset(events: int, middle: int, folder: Path) -> StudyDataset:
    """Generate a dataset with the nodes and the events per day of ``synthetic:MIDDLE``.

    It lasts longer the more events it has, and is written to ``folder`` for the runs to read. With
    ``middle`` events it is ``synthetic:MIDDLE`` itself.
    """
    if events == middle:
        return growing_nodes_dataset(events)
    sources = max(2, middle // EVENTS_PER_SOURCE)
    stream = synthetic(events, sources=sources, span=SPAN * events / middle)
    return _saved(f"synthetic:{events}", stream, folder / f"synthetic-{events}-fixed-nodes.parquet")


def _saved(name: str, stream: EventStream, path: Path) -> StudyDataset:
    _write(stream, path)
    reading = ReadOptions(bipartite=stream.bipartite)
    return StudyDataset(name, open_stream(path, reading), str(path), reading)


def _write(stream: EventStream, path: Path) -> None:
    content = BytesIO()
    pq.write_table(stream.to_arrow(), content)
    # An unchanged file is left alone: a new modification time would make it look newer than its runs. Parts
    # of a sweep may start together, and only one of them writes it.
    with locked(path.parent, wait=True):
        if not path.exists() or path.read_bytes() != content.getvalue():
            with replacing(path) as part:
                part.write_bytes(content.getvalue())
