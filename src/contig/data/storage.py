"""Streams kept on disk, in a form that is mapped into memory instead of read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from contig.data.columns import Array
from contig.data.events import COLUMNS, EventStream
from contig.data.ids import NodeIds
from contig.data.index_folder import HEAD, folder_of, is_index, link_index, open_index
from contig.errors import DataError
from contig.files import replacing, write_text


def save_stream(stream: EventStream, folder: Path, *, durable: bool = False) -> None:
    """Save a stream as ``.npy`` files that ``load_stream`` maps; ``durable`` is that of ``replacing``.

    Of a stream that is mapped from an index, the files are linked.
    """
    if (index := folder_of(stream)) is not None:
        link_index(stream, index, folder)
        write_text(folder / "origin.txt", stream.origin, durable=durable)
        return
    columns = {name: getattr(stream, name) for name in COLUMNS}
    for name, array in {**columns, "ids": stream.ids.labels, "is_dst": stream.ids.is_dst}.items():
        path = folder / f"{name}.npy"
        if array is None:
            path.unlink(missing_ok=True)  # of another stream saved here before
            continue
        with replacing(path, durable=durable) as part, part.open("wb") as file:
            np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)
    write_text(folder / "origin.txt", stream.origin, durable=durable)


def saved_files(folder: Path) -> list[Path]:
    """Return the files of a saved stream to check when it is opened; an index checks its own."""
    columns = [folder / HEAD] if is_index(folder) else list(folder.glob("[!.]*.npy"))
    return [*columns, folder / "origin.txt"]


def load_stream(folder: Path) -> EventStream:
    """Open a saved stream; its columns are read from disk as they are used."""
    if is_index(folder):
        return open_index(folder)

    def column(name: str) -> Array:
        array: Array = np.lib.format.open_memmap(folder / f"{name}.npy", mode="r")
        return array

    def optional(name: str) -> Array | None:
        return column(name) if (folder / f"{name}.npy").exists() else None

    try:
        stream = EventStream(
            src=column("src"),
            dst=column("dst"),
            t=column("t"),
            ids=NodeIds(column("ids"), optional("is_dst")),
            label=optional("label"),
            edge_features=optional("edge_features"),
            node_features=optional("node_features"),
            origin=(folder / "origin.txt").read_text("utf-8"),
        )
        problem = next(_problems(stream), None)
    except Exception as error:  # numpy raises whatever its parser of a damaged header raises
        problem = str(error) or type(error).__name__
    if problem is not None:
        raise DataError(f"{folder} does not hold a complete saved stream: {problem}.")
    return stream


def _problems(stream: EventStream) -> Iterator[str]:
    """Yield what is wrong with the columns of a saved stream."""
    events, nodes, is_dst = len(stream.src), len(stream.ids.labels), stream.ids.is_dst
    columns = {
        "src": "i8",
        "dst": "i8",
        "t": "i8 f8",
        "label": "i8",
        "edge_features": "f4",
        "node_features": "f4",
    }
    for name, kinds in columns.items():
        array: Array | None = getattr(stream, name)
        if array is None:
            continue
        rows = nodes if name == "node_features" else events
        if array.dtype.str[1:] not in kinds.split() or array.ndim != 1 + ("features" in name):
            yield f"{name} holds {array.dtype} values of shape {array.shape}"
        elif len(array) != rows:
            yield f"{name} has {len(array):,} rows, not {rows:,}: columns differ in length"
    if stream.ids.labels.dtype.kind not in "iU" or stream.ids.labels.ndim != 1:
        yield f"ids holds {stream.ids.labels.dtype} values"
    if is_dst is not None and (is_dst.dtype != np.bool_ or is_dst.shape != (nodes,)):
        yield f"is_dst holds {is_dst.dtype} values of shape {is_dst.shape}"
    for name, array in {"src": stream.src, "dst": stream.dst}.items():
        if events and not (int(array.min()) >= 0 and int(array.max()) < nodes):
            yield f"{name} is not in 0..{nodes:,}"
    if not np.isfinite(stream.t).all() or np.any(stream.t[1:] < stream.t[:-1]):
        yield "t decreases or is not finite"
