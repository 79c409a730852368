"""The streams of a reproduction: whole, or the beginning of each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from contig.data.datasets import find_dataset, open_stream
from contig.data.events import EventStream
from contig.data.synthetic import synthetic
from contig.errors import ConfigError
from contig.files import replacing
from contig.reproduction.paper import paper


@dataclass(frozen=True)
class Source:
    """A stream, what the runs are told to read it, and what a reader must know of it."""

    name: str  # as the paper calls it, where it has it
    stream: EventStream
    file: str
    reading: tuple[str, ...] = ()
    whole: bool = True

    @property
    def labelled(self) -> bool:
        return self.stream.label is not None

    def facts(self) -> str:
        """One line."""
        stream = self.stream
        features = f"{stream.edge_width} features" if stream.edge_width else "no features"
        beginning = "" if self.whole else "the beginning: "
        return f"{beginning}{len(stream):,} events, {stream.num_nodes:,} nodes, {features}"

    def differences(self) -> list[str]:
        """How it differs from the paper's stream of that name, in words."""
        theirs = paper()["table1"]["datasets"].get(self.name)
        if theirs is None:
            return [f"{self.name} is none of the paper's streams."]
        stream = self.stream
        ours = {"events": len(stream), "nodes": stream.num_nodes, "features": stream.edge_width}
        return [
            f"{self.name}: {ours[what]:,} {what} here, {theirs[what]:,} in the paper."
            for what in ours
            if ours[what] != theirs[what]
        ]


def at_hand() -> list[str]:
    """Those of the paper's streams that are on this machine; else the one that comes along."""
    return [name for name in paper()["table1"]["datasets"] if find_dataset(name)] or ["collegemsg"]


def named_sources(names: str) -> list[str]:
    """Names or files with commas between."""
    found = list(dict.fromkeys(name for name in map(str.strip, names.split(",")) if name))
    if not found:
        raise ConfigError(f"--datasets {names!r} names none; give for instance wikipedia,mooc.")
    return found


def open_source(name: str, events: int | None, folder: Path) -> Source:
    """A stream by its name or file; at most its first ``events``, then kept as a file in ``folder``."""
    stream = open_stream(name)
    known = Path(name).name.partition(".")[0] if Path(name).suffix else name
    if events is None or len(stream) <= events:
        return Source(known, stream, name)
    path = folder / f"{known.replace(':', '-')}-first-{events}.parquet"
    return replace(_kept(known, stream[:events], path), whole=False)


def watched(events: int, middle: int, folder: Path) -> Source:
    """A synthetic stream with as many nodes as ``synthetic:MIDDLE``, and as many events in a day.

    It is kept as a file in ``folder``; where ``events`` is ``middle``, it is the named stream itself.
    """
    name = f"synthetic:{events}"
    if events == middle:
        return Source(name, open_stream(name), name)
    sources, span = max(2, middle // 20), 30 * 86_400.0  # as the named stream has by default
    stream = synthetic(events, sources=sources, span=span * events / middle)
    return _kept(name, stream, folder / f"synthetic-{events}-watched.parquet")


def _kept(name: str, stream: EventStream, path: Path) -> Source:
    """The stream as a file."""
    _write(stream, path)
    side = "--bipartite" if stream.bipartite else "--unipartite"
    return Source(name, open_stream(path, bipartite=stream.bipartite), str(path), (side,))


def _write(stream: EventStream, path: Path) -> None:
    labels = stream.ids.labels
    columns = {"src": labels[stream.src], "dst": labels[stream.dst], "t": stream.t}
    if stream.label is not None:
        columns["label"] = stream.label
    table = pa.table(columns)
    if stream.edge_features is not None:
        table = table.append_column("features", pa.array(list(stream.edge_features)))
    content = BytesIO()
    pq.write_table(table, content)
    if not path.exists() or path.read_bytes() != content.getvalue():  # else it would look newer than its runs
        with replacing(path) as part:
            part.write_bytes(content.getvalue())
