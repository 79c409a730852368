"""Negative destinations of test events from the files of two benchmarks.

- TGB: ``tgbl-wiki_test_ns_v2.pkl``, a pickled dictionary from ``(source, destination, time)`` to an array
  of destinations. A pickle can run any code when it is loaded; here it may hold numbers, tuples,
  dictionaries and numpy arrays, and anything else is refused before it is created.
- TGB-Seq: ``Flickr_test_ns.npy``, an array with a row of destinations for each test event, in file order.

Both write nodes as their event files do, with one difference: in TGB's bipartite files an item's id is
increased by the largest user id and one.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contig.data.events import EventStream
from contig.errors import ConfigError, DataError

NO_NODE = -1  # fills up rows
_ARRAYS = {
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    *(
        (f"numpy.{package}.{module}", name)
        for package in ("core", "_core")  # before numpy 2 and since
        for module, name in (
            ("multiarray", "_reconstruct"),
            ("multiarray", "scalar"),
            ("numeric", "_frombuffer"),
        )
    ),
}

Ids = NDArray[np.int64]


def read_candidates(path: str | Path, stream: EventStream, events: Ids) -> Ids:
    """Read the negatives of events ``[events, most]`` as node numbers, filled up with -1.

    Every event must be in the file, and every node of its negatives in the stream.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise DataError(
            f"{path}: no such file; candidates_from (--candidates-from) names a .pkl or .npy file."
        )
    if stream.ids.labels.dtype.kind != "i":
        raise DataError(f"{stream.origin}: candidate files need integer node ids, as TGB and TGB-Seq have.")
    if path.suffix == ".npy":
        return _of_array(path, stream, events)
    if path.suffix == ".pkl":
        return _of_pickle(path, stream, events)
    raise ConfigError(f"{path}: a file of candidates is a .pkl of TGB or a .npy of TGB-Seq.")


def _of_array(path: Path, stream: EventStream, events: Ids) -> Ids:
    try:
        rows = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read ({error}); download it again.") from error
    if rows.ndim != 2 or rows.dtype.kind not in "iu" or len(rows) != len(events):
        raise DataError(
            f"{path}: expected whole numbers with a row for each of the {len(events):,} test events, not "
            f"{rows.dtype} of shape {rows.shape}. The file belongs to another stream or another split."
        )
    return _destinations(path, stream, rows.astype(np.int64))


def _of_pickle(path: Path, stream: EventStream, events: Ids) -> Ids:
    content = _load(path)
    labels, offset = stream.ids.labels, _item_offset(stream)
    keys = zip(
        labels[stream.src[events]].tolist(),
        (labels[stream.dst[events]] + offset).tolist(),
        stream.t[events].tolist(),
        strict=True,
    )
    found = []
    for event, key in zip(events.tolist(), keys, strict=True):
        if key not in content:
            raise DataError(
                f"{path}: no candidates for event {event} of {stream.origin} (source, destination and time "
                f"{key}). The file belongs to another stream or another split."
            )
        found.append(np.asarray(content[key]).astype(np.int64))
    rows = np.full((len(found), max(map(len, found), default=0)), NO_NODE, dtype=np.int64)
    for row, values in zip(rows, found, strict=True):
        row[: len(values)] = values - offset
    mask = np.arange(rows.shape[1]) < np.array([[len(values)] for values in found]).reshape(-1, 1)
    return _destinations(path, stream, rows, mask)


def _item_offset(stream: EventStream) -> int:
    """Return what TGB adds to the ids of destinations."""
    return int(stream.ids.labels[stream.src].max()) + 1 if stream.bipartite else 0


def _destinations(path: Path, stream: EventStream, rows: Ids, mask: NDArray[np.bool_] | None = None) -> Ids:
    """Replace the labels of destinations by node numbers where ``mask`` is true; -1 elsewhere."""
    ids = stream.ids
    nodes = np.arange(len(ids)) if ids.is_dst is None else np.flatnonzero(ids.is_dst)
    order = np.argsort(ids.labels[nodes])
    nodes, labels = nodes[order], ids.labels[nodes][order]
    place = np.searchsorted(labels, rows).clip(max=len(labels) - 1)
    mask = np.ones(rows.shape, dtype=bool) if mask is None else mask
    unknown = mask & (labels[place] != rows)
    if unknown.any():
        raise DataError(
            f"{path}: destination {rows[unknown][0]} is not in {stream.origin}. The file belongs to another "
            "stream."
        )
    return np.where(mask, nodes[place], NO_NODE)


class _ArrayUnpickler(pickle.Unpickler):
    """Creates numpy arrays and built-in containers, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ARRAYS:
            raise pickle.UnpicklingError(f"it refers to {module}.{name}, which is not part of an array")
        return super().find_class(module, name)


def _load(path: Path) -> dict[Any, Any]:
    try:
        with path.open("rb") as file:
            content = _ArrayUnpickler(file).load()
    except Exception as error:  # unpickling a damaged file can raise anything
        raise DataError(f"{path} was not read: {error}.") from error
    if not isinstance(content, dict):
        raise DataError(f"{path} holds a {type(content).__name__}, not TGB's dictionary of candidates.")
    return content
