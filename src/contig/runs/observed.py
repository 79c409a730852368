"""Events that a trained run observes after its training: checked, numbered and appended to those it knows."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contig.data.clock import LATEST
from contig.data.columns import Array, frozen
from contig.data.events import EventStream
from contig.data.growing import GrowingArray, GrowingIds
from contig.data.ids import TextIds
from contig.data.validation import EventColumns
from contig.errors import DataError
from contig.history import History
from contig.history.columns import EventColumns as HistoryColumns

log = logging.getLogger("contig")

Ints = NDArray[np.int64]
Place = Callable[[int], str]
Repeated = Literal["refuse", "accept"]


class NewEvents(NamedTuple):
    """Events in time order, by internal ids, and the nodes that are new with them."""

    src: Ints
    dst: Ints
    t: Array
    features: Array | None
    labels: list[int | str]  # of the new nodes, in the order of their numbers
    is_dst: list[bool] | None

    def tensors(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Return the columns as ``History.append`` takes them."""
        features = None if self.features is None else _tensor(self.features, device)
        return _tensor(self.src, device), _tensor(self.dst, device), _tensor(self.t, device), features


class GrowingStream:
    """A stream that follows a growing history; ``stream`` is its latest version, earlier ones stay valid.

    Its columns are those of the history where that is in the host's memory, so that events are stored once.
    """

    def __init__(self, stream: EventStream, history: History) -> None:
        self.stream = replace(stream, label=None)  # only training and evaluation use labels
        self.ids = GrowingIds(stream.ids)
        self._shared = history.device.type == "cpu" and not history.on_host
        self._columns = history.events if self._shared else _host_columns(stream)
        features = stream.node_features
        self._node_features = None if features is None else GrowingArray(features)

    def check(self, events: EventColumns, place: Place, *, repeated: Repeated = "refuse") -> NewEvents:
        """Return events that may be appended, in time order.

        Raises ``DataError``, with the place of the row, for an event before the last one of the stream.
        """
        stream = self.stream
        t = checked_times(stream, events.t, place)
        order = np.argsort(t, kind="stable")
        if np.any(np.diff(order) != 1):
            log.warning("The new events were not in time order; sorted by time.")
        numbered = self.ids.number(_ordered(events.src, order), _ordered(events.dst, order))
        features = _features(stream, events)
        features = None if features is None else features[order]
        new = NewEvents(numbered.src, numbered.dst, t[order], features, numbered.labels, numbered.is_dst)
        if repeated == "refuse":
            _reject_known(stream, new)
        return new

    def append(self, new: NewEvents) -> None:
        """Follow a history to which these events were appended."""
        if not self._shared:
            src, dst, t, features = new.tensors(torch.device("cpu"))
            more = {} if features is None else {"features": features}
            self._columns.append(src=src, dst=dst, t=t, **more)
        self.ids.add(new.labels, new.is_dst)
        nodes = self._node_features
        if nodes is not None and new.labels:  # those of new nodes are not known
            nodes.append(np.zeros((len(new.labels), nodes.values.shape[1]), np.float32))
        columns = {name: frozen(self._columns[name].numpy()) for name in self._columns.columns}
        self.stream = replace(
            self.stream,
            src=columns["src"],
            dst=columns["dst"],
            t=columns["t"],
            ids=self.ids.ids,
            edge_features=columns.get("features"),
            node_features=None if nodes is None else nodes.values,
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
    ids = GrowingIds(trained.ids)
    ids.add(saved["labels"], saved["is_dst"])
    columns = {name: column.numpy() for name, column in saved["events"].items()}
    edges, nodes = trained.edge_features, trained.node_features
    if nodes is not None:
        more = np.zeros((len(saved["labels"]), nodes.shape[1]), nodes.dtype)
        nodes = frozen(np.concatenate([nodes, more]))
    return replace(
        trained,
        src=frozen(np.concatenate([trained.src, columns["src"]])),
        dst=frozen(np.concatenate([trained.dst, columns["dst"]])),
        t=frozen(np.concatenate([trained.t, columns["t"]])),
        ids=ids.ids,
        label=None,
        edge_features=None if edges is None else frozen(np.concatenate([edges, columns["features"]])),
        node_features=nodes,
    )


def checked_times(stream: EventStream, t: Array, place: Place) -> Array:
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


def _reject_known(stream: EventStream, new: NewEvents) -> None:
    """Reject a piece that is observed twice, also one that lies entirely at the last time."""
    tail = stream[max(0, len(stream) - len(new.t)) :]
    pairs = [(tail.src, new.src), (tail.dst, new.dst), (tail.t, new.t)]
    if tail.edge_features is not None and new.features is not None:
        pairs.append((tail.edge_features, new.features))
    if all(np.array_equal(a, b) for a, b in pairs):
        raise DataError(
            f"The run knows these {len(new.t):,} events already; observe each event once. If they happened "
            "again at the same time, use repeated='accept' (--repeated accept)."
        )


def _ordered(column: Ints | TextIds, order: Ints) -> Ints | TextIds:
    if isinstance(column, TextIds):
        return TextIds(column.codes[order], column.labels)
    return column[order]


def _host_columns(stream: EventStream) -> HistoryColumns:
    src, dst, t = (_tensor(column) for column in (stream.src, stream.dst, stream.t))
    features = None if stream.edge_features is None else _tensor(stream.edge_features)
    return HistoryColumns(src, dst, t, features)


def _tensor(array: Array, device: torch.device | str = "cpu") -> Tensor:
    return torch.from_numpy(np.require(array, requirements=["C", "W"])).to(device)
