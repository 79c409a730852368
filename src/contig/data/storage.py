"""Streams kept on disk, in a form that is mapped into memory instead of read."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from contig.data.columns import Array
from contig.data.events import COLUMNS, EventStream
from contig.data.ids import NodeIds
from contig.errors import DataError
from contig.files import replacing


def save_stream(stream: EventStream, folder: Path) -> None:
    """Save a stream as ``.npy`` files that ``load_stream`` maps into memory."""
    columns = {name: getattr(stream, name) for name in COLUMNS}
    for name, array in {**columns, "ids": stream.ids.labels, "is_dst": stream.ids.is_dst}.items():
        path = folder / f"{name}.npy"
        if array is None:
            path.unlink(missing_ok=True)  # of another stream saved here before
            continue
        with replacing(path) as part:
            np.save(part, array)
    with replacing(folder / "origin.txt") as part:
        part.write_text(stream.origin, "utf-8")


def load_stream(folder: Path) -> EventStream:
    """Open a saved stream; its columns are read from disk as they are used."""

    def column(name: str) -> Array:
        array: Array = np.load(folder / f"{name}.npy", mmap_mode="r")
        return array

    def optional(name: str) -> Array | None:
        return column(name) if (folder / f"{name}.npy").exists() else None

    try:
        return EventStream(
            src=column("src"),
            dst=column("dst"),
            t=column("t"),
            ids=NodeIds(column("ids"), optional("is_dst")),
            label=optional("label"),
            edge_features=optional("edge_features"),
            node_features=optional("node_features"),
            origin=(folder / "origin.txt").read_text("utf-8"),
        )
    except (OSError, EOFError, ValueError) as error:
        raise DataError(
            f"{folder} does not hold a complete saved stream ({error}); save it again."
        ) from error
