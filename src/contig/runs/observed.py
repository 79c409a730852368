"""Events that a trained run observes after its training: checked, numbered and appended to those it knows."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from contig.data.clock import LATEST, TimeSpan, duration, find_wrong_unit, in_unit_of, out_of_range
from contig.data.columns import Array, frozen
from contig.data.events import EventStream
from contig.data.growing import (
    GrowingArray,
    GrowingIds,
    NumberedEvents,
    reject_swapped,
    warn_of_other_side,
)
from contig.data.ids import TextIds
from contig.data.validation import EventColumns
from contig.errors import DataError
from contig.history import History
from contig.history.columns import EventColumns as HistoryColumns
from contig.history.columns import as_tensor
from contig.runs.arrivals import Arrivals, NewEvents, new_rows
from contig.runs.repeated_events import Overlap, Policy, known_positions

log = logging.getLogger("contig")

Ints = NDArray[np.int64]
Place = Callable[[int], str]
OTHERS = "events before it count as late"
MANY = 20  # unknown ids that are no coincidence


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
        new, order = self._numbered(events, place)
        known = np.zeros(len(order), dtype=bool)
        if repeated == "reject":
            known[order] = known_positions(self.arrivals, new) >= 0
        t = np.empty_like(new.t)
        t[order] = new.t
        overlap = Overlap(self.arrivals.stream.time_span, t, known, place, late)
        overlap.reject_known()
        overlap.reject_late()
        numbered = NumberedEvents(new.src, new.dst, new.labels, new.is_dst)
        warn_of_other_side(self.ids, numbered, lambda row: place(int(order[row])))
        self._warn_of_unknown_ids(new, place(0).rpartition(", ")[0])
        if np.any(np.diff(order) != 1):
            log.warning("The new events were not in time order; sorted by time.")
        return new

    def _warn_of_unknown_ids(self, new: NewEvents, origin: str) -> None:
        """Warn if no source of many is known, or no destination: the ids may be written differently."""
        known = len(self.ids.ids)
        for kind, nodes in (("source", new.src), ("destination", new.dst)):
            if known >= MANY and nodes.min() >= known and (count := len(np.unique(nodes))) >= MANY:
                here, there = new.labels[nodes[0] - known], self.ids.ids.labels[0].item()
                log.warning(
                    f"{origin}: none of the {count:,} {kind}s is known. Ids such as {here!r} here, and "
                    f"{there!r} in the run: are they of the same nodes?"
                )

    def reject_older(self, events: EventColumns, place: Place, *, repeated: Policy = "reject") -> None:
        """Raise as ``check`` does if times are of another unit or type, or some events are older."""
        new, _ = self._numbered(events, place)
        if new.late.any():
            self.check(events, place, repeated=repeated)  # which also finds the known ones among them

    def known(self, events: EventColumns, place: Place) -> Ints:
        """Return the position of the known event that each row repeats, or -1 (see ``known_positions``)."""
        new, order = self._numbered(events, place)
        known = np.empty(len(order), dtype=np.int64)
        known[order] = known_positions(self.arrivals, new)
        return known

    def _numbered(self, events: EventColumns, place: Place) -> tuple[NewEvents, Ints]:
        """Return events in time order, by internal ids, and the row of each."""
        stream = self.arrivals.stream
        t = _times_of_type(stream, events, place)
        order = np.argsort(t, kind="stable")
        numbered = self.ids.number(_ordered(events.src, order), _ordered(events.dst, order))
        reject_swapped(self.ids, numbered, lambda row: place(int(order[row])))
        features = _features(stream, events)
        features = None if features is None else features[order]
        t, nodes = t[order], (numbered.labels, numbered.is_dst)
        return NewEvents(numbered.src, numbered.dst, t, features, *nodes, t < stream.t[-1]), order

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


def selected_rows(events: EventColumns, rows: Ints) -> EventColumns:
    """Return some of the events."""
    return replace(
        events,
        src=_ordered(events.src, rows),
        dst=_ordered(events.dst, rows),
        t=events.t[rows],
        label=None if events.label is None else events.label[rows],
        features=None if events.features is None else events.features[rows],
    )


def _times_of_type(stream: EventStream, events: EventColumns, place: Place) -> Array:
    """Return times of the stream's type; reject those that it cannot hold and those in another unit."""
    t = in_unit_of(stream.time_span, events.t, dates=events.dates)
    if stream.t.dtype.kind == "i" and (np.floor(t) != t).any():
        row = int(np.argmax(np.floor(t) != t))
        raise DataError(f"{place(row)}: t={t[row]} is not a whole number, as the times of this run are.")
    if stream.t.dtype.kind == "i" and (far := out_of_range(t)).any():
        row = int(np.argmax(far))
        raise DataError(
            f"{place(row)}: t={t[row]}: times from {LATEST:,} on may overflow; is the unit right?"
        )
    if wrong := find_wrong_unit(t, stream.time_span, dates=events.dates):
        raise DataError(f"{place(wrong.row)}: t={t[wrong.row]} {wrong.problem}")
    return t.astype(stream.t.dtype)


def check_far_ahead(events: EventColumns, known: TimeSpan, place: Place) -> str | None:
    """Return a warning about an event long after the last known one; reject it if it is in a far future.

    Once such an event is known, all earlier ones are late. A mistyped year does this. A run that knows events
    of the future already may learn of others.
    """
    t, second = in_unit_of(known, events.t, dates=events.dates), known.per_second
    row, ahead = int(np.argmax(t)), float(t.max()) - known.last
    wrong = find_wrong_unit(t, known, dates=events.dates)
    if known.unix is None or wrong is not None:  # which is rejected later
        return None
    now, month = time.time() * second, 30 * 86_400 * second  # a clock or a time zone is off by less
    rejected = ahead > 365 * 86_400 * second and t[row] > now + month and known.last <= now
    if not rejected and ahead <= max(known.span, month):
        return None
    when, silence = known.written(t[row].item()), duration(ahead / second)
    text = f"{place(row)}: t={when} is {silence} after the last event that the run knows, at "
    text += f"{known.written(known.last)}."
    if rejected:
        raise DataError(f"{text} That is in the future. Correct the time: once it is known, {OTHERS}.")
    return f"{text} Is the time right? From now on {OTHERS}."


def far_behind(events: EventColumns, known: TimeSpan, place: Place) -> str | None:
    """Return a warning about an event long before the first known one, as after a mistyped year."""
    t, second = in_unit_of(known, events.t, dates=events.dates), known.per_second
    row, behind = int(np.argmin(t)), known.first - float(t.min())
    if known.unix is None or behind <= max(known.span, 30 * 86_400 * second):
        return None
    when = known.written(t[row].item())
    return (
        f"{place(row)}: t={when} is {duration(behind / second)} before the first event of the run, at "
        f"{known.written(known.first)}. Is the time right? It is now a part of the history."
    )


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
