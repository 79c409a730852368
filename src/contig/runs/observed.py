"""Events that a trained run observes after its training: appended to those it was trained on."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from contig.data.clock import LATEST
from contig.data.columns import Array, frozen
from contig.data.events import EventStream
from contig.data.ids import NodeIds, TextIds, distinct_ids
from contig.data.validation import EventColumns
from contig.errors import DataError

log = logging.getLogger("contig")

Ints = NDArray[np.int64]
Place = Callable[[int], str]


def extended(stream: EventStream, events: EventColumns, place: Place) -> EventStream:
    """Append events to a stream; unknown nodes are added in the order in which they occur.

    Raises ``DataError``, with the place of the row, for an event before the last one of the stream. Labels
    are dropped: only training and evaluation use them.
    """
    t = _times(stream, events.t, place)
    order = np.argsort(t, kind="stable")
    if np.any(np.diff(order) != 1):
        log.warning("The new events were not in time order; sorted by time.")
    ids, src, dst = _numbered(stream.ids, _ordered(events.src, order), _ordered(events.dst, order))
    features = _features(stream, events)
    features = None if features is None else features[order]
    _reject_known(stream, src, dst, t[order])
    return appended(stream, ids, src, dst, t[order], features)


def appended(
    stream: EventStream, ids: NodeIds, src: Ints, dst: Ints, t: Array, features: Array | None
) -> EventStream:
    """Return a stream followed by more events, whose nodes ``ids`` knows."""
    edges, nodes = stream.edge_features, stream.node_features
    if nodes is not None:  # those of new nodes are not known
        nodes = np.concatenate([nodes, np.zeros((len(ids) - len(nodes), nodes.shape[1]), nodes.dtype)])
    return replace(
        stream,
        src=frozen(np.concatenate([stream.src, src])),
        dst=frozen(np.concatenate([stream.dst, dst])),
        t=frozen(np.concatenate([stream.t, t])),
        ids=ids,
        label=None,
        edge_features=None if edges is None else frozen(np.concatenate([edges, features])),
        node_features=nodes if nodes is None else frozen(nodes),
    )


def saved_tail(stream: EventStream, trained: EventStream) -> dict[str, Any]:
    """Return what a stream has more than the one it was extended from, to save."""
    events, nodes = len(trained), trained.num_nodes
    columns = {"src": stream.src, "dst": stream.dst, "t": stream.t, "features": stream.edge_features}
    is_dst = stream.ids.is_dst
    return {
        "events": {n: torch.tensor(np.array(c[events:])) for n, c in columns.items() if c is not None},
        "labels": stream.ids.labels[nodes:].tolist(),
        "is_dst": None if is_dst is None else is_dst[nodes:].tolist(),
    }


def with_tail(trained: EventStream, saved: dict[str, Any]) -> EventStream:
    """Return a stream followed by the events of ``saved_tail``."""
    ids = _grown(trained.ids, saved["labels"], saved["is_dst"])
    columns = {name: column.numpy() for name, column in saved["events"].items()}
    features = columns.get("features")
    return appended(trained, ids, columns["src"], columns["dst"], columns["t"], features)


def _times(stream: EventStream, t: Array, place: Place) -> Array:
    """Return times of the stream's type; reject those before its last event."""
    last = stream.t[-1]
    if (t < last).any():
        row = int(np.argmax(t < last))
        raise DataError(
            f"{place(row)}: t={t[row]} is before the last event that the run knows, at {last}; observe "
            "events in time order, and each once."
        )
    if stream.t.dtype.kind == "i" and (np.floor(t) != t).any():
        row = int(np.argmax(np.floor(t) != t))
        raise DataError(f"{place(row)}: t={t[row]} is not a whole number, as the times of this run are.")
    if stream.t.dtype.kind == "i" and (t >= LATEST).any():
        row = int(np.argmax(t >= LATEST))
        raise DataError(
            f"{place(row)}: t={t[row]}: times from {LATEST:,} on may overflow; is the unit right?"
        )
    return t.astype(stream.t.dtype)


def _features(stream: EventStream, events: EventColumns) -> Array | None:
    width = 0 if events.features is None else events.features.shape[1]
    if not stream.edge_width:
        return None
    if width != stream.edge_width:
        raise DataError(
            f"The new events have {width} features, those of the run {stream.edge_width}; name their columns "
            "with features= (--features)."
        )
    return events.features


def _reject_known(stream: EventStream, src: Ints, dst: Ints, t: Array) -> None:
    """Reject a piece that is observed twice, also one that lies entirely at the last time."""
    tail = stream[max(0, len(stream) - len(t)) :]
    if all(np.array_equal(a, b) for a, b in ((tail.src, src), (tail.dst, dst), (tail.t, t))):
        raise DataError(f"The run knows these {len(t):,} events already; observe each event once.")


def _ordered(column: Ints | TextIds, order: Ints) -> Ints | TextIds:
    if isinstance(column, TextIds):
        return TextIds(column.codes[order], column.labels)
    return column[order]


def _numbered(ids: NodeIds, src: Ints | TextIds, dst: Ints | TextIds) -> tuple[NodeIds, Ints, Ints]:
    """Assign numbers to the nodes of new events, to unknown ones in the order of their first events."""
    names = [_named(ids, column) for column in (src, dst)]
    rows = [
        np.array([ids.number_of(x, dst=bool(d)) for x in of[0]], dtype=np.int64)[of[1]]
        for d, of in enumerate(names)
    ]
    new: dict[tuple[bool, int | str], int] = {}
    for event in np.flatnonzero((rows[0] < 0) | (rows[1] < 0)).tolist():
        for side, (labels, codes) in enumerate(names):
            if rows[side][event] < 0:
                key = (bool(side) and ids.bipartite, labels[codes[event]])
                rows[side][event] = new.setdefault(key, len(ids) + len(new))
    is_dst = [dst for dst, _ in new] if ids.bipartite else None
    return _grown(ids, [label for _, label in new], is_dst), rows[0], rows[1]


def _named(ids: NodeIds, column: Ints | TextIds) -> tuple[list[int | str], Ints]:
    """Return the distinct labels of a column, in the type of the known ones, and the position of each row."""
    labels, codes = distinct_ids(column)
    if ids.labels.dtype.kind == "U":
        return [str(label) for label in labels], codes
    if isinstance(column, TextIds):
        raise DataError(
            f"The ids of this run are whole numbers such as {ids.labels[0]}, but the new events have "
            f"{labels[0]!r}; check the columns."
        )
    return labels, codes


def _grown(ids: NodeIds, labels: list[int | str], is_dst: list[bool] | None) -> NodeIds:
    if not labels:
        return ids
    grown = np.concatenate(
        [ids.labels, np.array(labels, dtype=None if ids.labels.dtype.kind == "U" else np.int64)]
    )
    if ids.is_dst is None:
        return NodeIds(frozen(grown))
    return NodeIds(frozen(grown), frozen(np.concatenate([ids.is_dst, np.array(is_dst, dtype=bool)])))
