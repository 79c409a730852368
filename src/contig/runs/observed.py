"""Events that a trained run observes after its training: checked, numbered and appended to those it knows."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from contig.data.clock import LATEST, TimeSpan, out_of_range
from contig.data.columns import Array, frozen
from contig.data.events import EventStream
from contig.data.growing import GrowingArray, GrowingIds
from contig.data.ids import TextIds
from contig.data.validation import EventColumns
from contig.errors import DataError
from contig.history import History
from contig.history.columns import EventColumns as HistoryColumns
from contig.history.columns import as_tensor
from contig.runs.arrivals import Arrivals, NewEvents, new_rows

log = logging.getLogger("contig")

Ints = NDArray[np.int64]
Place = Callable[[int], str]
Policy = Literal["reject", "accept"]  # what to do with late or repeated events

ACCEPT_LATE = " To take older ones into the history alone, use late='accept' (--late accept)."
REPEATED = "If it happened again at the same time, use repeated='accept' (--repeated accept)."


class GrowingStream:
    """Events that follow a growing history; ``arrivals`` is their latest version, earlier ones stay valid.

    Its columns are those of the history where that is in the host's memory, so that events are stored once.
    ``new_node`` are the features of nodes about which nothing is known, zeros by default.
    """

    def __init__(self, arrivals: Arrivals, history: History, new_node: Array | None = None) -> None:
        stream = replace(arrivals.stream, label=None)  # only training and evaluation use labels
        self.arrivals = replace(arrivals, stream=stream)
        self.ids = GrowingIds(stream.ids)
        self._shared = history.device.type == "cpu" and not history.on_host
        self._columns = history.events if self._shared else _host_columns(arrivals)
        features = stream.node_features
        self._node_features = None if features is None else GrowingArray(features)
        self._new_node = new_node

    def check(
        self, events: EventColumns, place: Place, *, repeated: Policy = "reject", late: Policy | None = None
    ) -> NewEvents:
        """Return events that may be appended: late ones, if these are taken, and the others in time order.

        Raises ``DataError``, with the place of the row, for an event that is rejected.
        """
        stream = self.arrivals.stream
        t = checked_times(stream, events.t, place, late=late)
        order = np.argsort(t, kind="stable")
        if np.any(np.diff(order) != 1):
            log.warning("The new events were not in time order; sorted by time.")
        numbered = self.ids.number(_ordered(events.src, order), _ordered(events.dst, order))
        features = _features(stream, events)
        features = None if features is None else features[order]
        t, nodes = t[order], (numbered.labels, numbered.is_dst)
        new = NewEvents(numbered.src, numbered.dst, t, features, *nodes, t < stream.t[-1])
        if repeated == "reject":
            _reject_known(self.arrivals, new, lambda row: place(int(order[row])))
        return new

    def append(self, new: NewEvents) -> None:
        """Follow a history to which these events were appended."""
        if not self._shared:
            src, dst, t, features, _ = new.tensors(torch.device("cpu"))
            rows = {"src": src, "dst": dst, "t": t} | ({} if features is None else {"features": features})
            if new.late.any():
                rows |= {"t": torch.cummax(torch.cat([self._columns["t"][-1:], t]), 0).values[1:]}
                rows |= {"happened": t}
            self._columns.append(**rows)
        self.ids.add(new.labels, new.is_dst)
        nodes = self._node_features
        if nodes is not None and new.labels:
            nodes.append(new_rows(len(new.labels), nodes.values.shape[1], self._new_node))
        columns = {name: frozen(self._columns[name].numpy()) for name in self._columns.columns}
        late = np.concatenate([self.arrivals.late, len(self.arrivals) + np.flatnonzero(new.late)])
        stream = replace(
            self.arrivals.stream,
            src=columns["src"],
            dst=columns["dst"],
            t=columns["t"],
            ids=self.ids.ids,
            edge_features=columns.get("features"),
            node_features=None if nodes is None else nodes.values,
        )
        self.arrivals = Arrivals(stream, columns.get("happened") if len(late) else None, late)


def saved_tail(arrivals: Arrivals, trained: EventStream) -> dict[str, Any]:
    """Return what a run learned of after its training, to save; ``new_events`` reads it."""
    new = arrivals.tail(len(trained), trained.num_nodes)
    columns = {"src": new.src, "dst": new.dst, "t": new.t, "features": new.features}
    events = {name: torch.tensor(np.array(c)) for name, c in columns.items() if c is not None}
    saved = {"events": events, "labels": new.labels, "is_dst": new.is_dst}
    return saved | ({"late": torch.from_numpy(new.late)} if new.late.any() else {})


def new_events(saved: dict[str, Any]) -> NewEvents:
    """Return the events of ``saved_tail``."""
    columns = {name: column.numpy() for name, column in saved["events"].items()}
    late = saved["late"].numpy() if "late" in saved else np.zeros(len(columns["t"]), dtype=bool)
    ends = columns["src"], columns["dst"], columns["t"]
    return NewEvents(*ends, columns.get("features"), saved["labels"], saved["is_dst"], late)


def checked_times(stream: EventStream, t: Array, place: Place, *, late: Policy | None = None) -> Array:
    """Return times of the stream's type; reject those before its last event, unless these are taken.

    ``late`` is None for a caller that could not take them.
    """
    last = stream.t[-1]
    if late != "accept" and (t < last).any():
        row, date = int(np.argmax(t < last)), TimeSpan.of(stream.t).iso(last.item())
        at = str(last) if date is None else f"{last} ({date})"
        raise DataError(
            f"{place(row)}: t={t[row]} is before the last event that the run knows, at {at}. New events "
            f"must come in time order, each of them once.{ACCEPT_LATE if late else ''}"
        )
    if stream.t.dtype.kind == "i" and (np.floor(t) != t).any():
        row = int(np.argmax(np.floor(t) != t))
        raise DataError(f"{place(row)}: t={t[row]} is not a whole number, as the times of this run are.")
    if stream.t.dtype.kind == "i" and (far := out_of_range(t)).any():
        row = int(np.argmax(far))
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


def _reject_known(arrivals: Arrivals, new: NewEvents, place: Place) -> None:
    """Reject a piece that is observed twice, also one that lies entirely at the last time."""
    if new.late.any():
        _reject_known_late(arrivals, new, place)
        return
    stream = arrivals.stream
    tail = stream[max(0, len(stream) - len(new.t)) :]
    pairs = [(tail.src, new.src), (tail.dst, new.dst), (tail.t, new.t)]
    if tail.edge_features is not None and new.features is not None:
        pairs.append((tail.edge_features, new.features))
    if all(np.array_equal(a, b) for a, b in pairs):
        raise DataError(f"The run already knows all of these events; observe each event once. {REPEATED}")


def _reject_known_late(arrivals: Arrivals, new: NewEvents, place: Place) -> None:
    """Reject a late event that is the same as a known one: it would be counted twice."""
    rows, stream = np.flatnonzero(new.late), arrivals.stream
    candidates = np.flatnonzero(np.isin(arrivals.times, new.t[rows]))
    known = set(_keys(stream.src, stream.dst, arrivals.times, stream.edge_features, candidates))
    for row, key in zip(rows.tolist(), _keys(new.src, new.dst, new.t, new.features, rows), strict=True):
        if key in known:
            raise DataError(
                f"{place(row)}: the run knows this event at t={new.t[row]} already; leave it out. {REPEATED}"
            )


def _keys(src: Ints, dst: Ints, t: Array, features: Array | None, rows: Ints) -> list[tuple[Any, ...]]:
    """Return what makes events the same."""
    values = [b""] * len(rows) if features is None else [row.tobytes() for row in features[rows]]
    return list(zip(src[rows].tolist(), dst[rows].tolist(), t[rows].tolist(), values, strict=True))


def _ordered(column: Ints | TextIds, order: Ints) -> Ints | TextIds:
    if isinstance(column, TextIds):
        return TextIds(column.codes[order], column.labels)
    return column[order]


def _host_columns(arrivals: Arrivals) -> HistoryColumns:
    stream = arrivals.stream
    src, dst, t = (as_tensor(column) for column in (stream.src, stream.dst, stream.t))
    features = None if stream.edge_features is None else as_tensor(stream.edge_features)
    columns = HistoryColumns(src, dst, t, features)
    if arrivals.happened is not None:
        columns.columns["happened"] = as_tensor(arrivals.happened)
    return columns
