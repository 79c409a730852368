"""Look up the events of any node strictly before any time.

Every node owns a segment of entries in time order (``contig.kernels.segments``), so a query is one
bisection, ties are exact, and appending events takes amortized O(1) each.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from contig.data import index_folder
from contig.data.columns import Array
from contig.data.events import EventStream, check_stream
from contig.data.mapped_arrays import map_growing, map_private, read_in_order
from contig.errors import ConfigError, DataError, unknown
from contig.files import as_path
from contig.history import storage
from contig.history.checks import (
    check_appended,
    check_happened,
    check_late,
    check_order_of_nodes,
    check_queries,
    checked_positions,
)
from contig.history.columns import EventColumns, as_tensor, comparable_times
from contig.history.entries import count_entries
from contig.history.evidence import Evidence, EvidenceSpec, check_limits, longest_after
from contig.history.integrity import check_saved
from contig.history.late import insert_event
from contig.kernels.lookup import Neighbors, count_before, latest_before, sample_before
from contig.kernels.pinned_memory import pinned_copy
from contig.kernels.placement import place
from contig.kernels.segments import ENTRIES, SEGMENTS, Segments, concatenated_ranges, node_ranges
from contig.options import check_count

Choice = Literal["recent", "uniform"]
CHOICES: tuple[Choice, ...] = ("recent", "uniform")
MAX_INT32_EVENTS = 2**31  # from here on event positions are stored in 64 bits


@dataclass(eq=False)
class History:
    """All events so far, indexed by node and time.

    ``before`` and ``count_before`` are the queries, ``append`` adds events in stream order, and
    ``only`` restricts the history to some of its events (those of the training split, say).
    """

    events: EventColumns
    segments: Segments
    num_nodes: int
    on_host: bool = False  # stored in host memory although the device is a GPU
    folder: Path | None = None  # of the index that it is mapped from
    whole: History | None = field(default=None, repr=False)  # the mapped history that this one begins
    _evidence: dict[EvidenceSpec, Evidence] = field(default_factory=dict, repr=False)

    # -- construction ----------------------------------------------------------------------------

    @classmethod
    def from_stream(cls, stream: EventStream, device: str | torch.device = "cpu") -> History:
        """Index a whole stream; queries see only the events before their times."""
        check_stream(stream)
        if (folder := index_folder.folder_of(stream)) is not None:
            return cls._mapped(stream, folder)._to(torch.device(device))
        features = None if stream.edge_features is None else as_tensor(stream.edge_features, device)
        src, dst, t = (as_tensor(column, device) for column in (stream.src, stream.dst, stream.t))
        events = EventColumns(src, dst, t, features)
        return cls._index(events, torch.arange(len(stream), device=device), stream.num_nodes)

    @classmethod
    def _mapped(cls, stream: EventStream, folder: Path) -> History:
        """Map the history of an index, with space for the events that are appended."""

        def array(name: str) -> Tensor:
            path = folder / f"{name}.npy"
            if name in SEGMENTS:  # every live event writes to them, and each first write would copy a page
                return torch.from_numpy(np.array(map_private(path)))
            scattered = name not in ("src", "dst", "t")  # which are read in order
            return torch.from_numpy(np.asarray(map_growing(path, scattered=scattered)))

        features = stream.edge_features
        if features is None or index_folder.is_mapped(stream, "edge_features"):
            rows = None if features is None else array("edge_features")
        else:
            rows = as_tensor(features)
        arrays = {name: array(name) for name in (*ENTRIES, *SEGMENTS)}
        if len(arrays["start"]) != stream.num_nodes:
            raise DataError(f"{folder}: the index is of {len(arrays['start']):,} nodes. {index_folder.CURE}")
        length = arrays["length"]
        segments = Segments(**arrays, used=int(length.sum()), longest=int(length.max()))
        events = EventColumns(array("src"), array("dst"), array("t"), rows, count=len(stream))
        return cls(events, segments, stream.num_nodes, folder=folder)

    def _to(self, device: torch.device) -> History:
        """Return the history itself on the CPU, a copy of what is in use on a GPU."""
        if device.type == "cpu":
            return self
        with self.read_in_order():
            columns = {name: self.events[name].to(device) for name in self.events.columns}
            arrays = {name: one.to(device) for name, one in self.segments.trimmed(self.num_nodes).items()}
        events = EventColumns(columns["src"], columns["dst"], columns["t"], columns.get("features"))
        segments = Segments(**arrays, used=self.segments.used, longest=self.segments.longest)
        return History(events, segments, self.num_nodes)

    @classmethod
    def empty(
        cls, num_nodes: int = 0, *, edge_width: int = 0, time_dtype: torch.dtype = torch.float64
    ) -> History:
        """Return a history without events, to append to."""
        for name, value in (("num_nodes", num_nodes), ("edge_width", edge_width)):
            check_count(name, value)
        ids = torch.empty(0, dtype=torch.int64)
        features = torch.empty(0, edge_width) if edge_width else None
        events = EventColumns(ids, ids.clone(), torch.empty(0, dtype=time_dtype), features)
        return cls._index(events, ids, num_nodes)

    @classmethod
    def _index(cls, events: EventColumns, chosen: Tensor, num_nodes: int) -> History:
        """Index the chosen events, with no spare capacity."""
        src, dst, t = (events[name][chosen] for name in ("src", "dst", "t"))
        of_src = torch.bincount(src, minlength=num_nodes)
        capacity = of_src + torch.bincount(dst[src != dst], minlength=num_nodes)
        event_dtype = torch.int32 if events.count < MAX_INT32_EVENTS else torch.int64
        segments = Segments.with_capacity(capacity, event_dtype, t.dtype)
        place(segments, chosen, src, dst, t)
        return cls(events, segments, num_nodes)

    def only(self, chosen: Array) -> History:
        """Return the history of these events alone (ascending positions), over the same columns.

        The first events of a mapped history share its entries: nothing is copied.
        """
        positions = checked_positions(chosen, self.num_events)
        if self.folder is not None and len(positions) and positions[-1] == len(positions) - 1:
            return self._first_events(len(positions))
        return self._index(self.events, torch.from_numpy(positions).to(self.device), self.num_nodes)

    def _first_events(self, count: int) -> History:
        """Return the history of the first events, over the entries of this one."""
        src, dst = (self.events[name][:count].numpy() for name in ("src", "dst"))
        length = torch.from_numpy(count_entries(src, dst, self.num_nodes))
        # without spare capacity: what is appended to one of the two must not overwrite entries of the other
        segments = replace(
            self.segments,
            length=length,
            capacity=length.clone(),
            longest=int(length.max()) if len(length) else 0,
        )
        return replace(self, segments=segments, folder=None, whole=self, _evidence={})

    def pinned_copy(self, device: torch.device, events: EventColumns | None = None) -> History:
        """Return a copy in pinned host memory that the GPU ``device`` reads; it cannot be appended to.

        ``events`` are columns that are pinned already, to be shared with another history.
        """
        with self.read_in_order():
            kept = self.segments.trimmed(self.num_nodes)
            pinned = {name: pinned_copy(one, device) for name, one in kept.items()}
            if events is None:
                columns = {name: pinned_copy(self.events[name], device) for name in self.events.columns}
                events = EventColumns(columns["src"], columns["dst"], columns["t"], columns.get("features"))
        segments = Segments(**pinned, used=self.segments.used, longest=self.segments.longest)
        return History(events, segments, self.num_nodes, on_host=True)

    def reindexed(self, events: EventColumns, num_nodes: int) -> History:
        """Index other events in the same kind of memory: on the same device, or pinned for it."""
        device = torch.device("cpu") if self.on_host else self.device
        columns = {name: events[name].to(device) for name in events.columns}
        moved = EventColumns(columns["src"], columns["dst"], columns["t"], columns.get("features"))
        history = self._index(moved, torch.arange(moved.count, device=device), num_nodes)
        return history.pinned_copy(self.device) if self.on_host else history

    def extended(self, src: Tensor, dst: Tensor, t: Tensor, features: Tensor | None = None) -> History:
        """Return a new history with more events; ``append`` is faster, but pinned memory cannot grow."""
        rows = check_appended(self.events, src, dst, t, features)
        columns = {name: torch.cat([self.events[name], rows[name]]) for name in self.events.columns}
        events = EventColumns(columns["src"], columns["dst"], columns["t"], columns.get("features"))
        last = max((int(nodes.max()) for nodes in (src, dst) if len(nodes)), default=-1)
        return self.reindexed(events, max(self.num_nodes, last + 1))

    def read_in_order(self) -> AbstractContextManager[None]:
        """Declare a pass over all events or entries; an index is read at random places otherwise."""
        columns = [self.events[name] for name in self.events.columns]
        entries = [getattr(self.segments, name) for name in ENTRIES]
        return read_in_order([one.numpy() for one in (*columns, *entries) if one.device.type == "cpu"])

    # -- queries ---------------------------------------------------------------------------------

    @property
    def device(self) -> torch.device:
        return self.segments.device

    @property
    def num_events(self) -> int:
        """The number of events in the columns, including those that ``only`` left out."""
        return self.events.count

    def before(
        self,
        nodes: Tensor,
        times: Tensor,
        k: int,
        how: Choice = "recent",
        generator: torch.Generator | None = None,
    ) -> Neighbors:
        """Return up to ``k`` events of each node strictly before its time, the most recent first.

        ``recent`` takes the last ``k``, ``uniform`` draws ``k`` distinct ones of all earlier events.
        A node that the history does not know has no events.
        """
        if how not in CHOICES:
            raise ConfigError(unknown("choice of neighbors", str(how), CHOICES))
        if not isinstance(k, int) or k < 1:
            raise ConfigError(f"k={k!r}: the number of neighbors must be a whole number of at least 1.")
        check_queries(nodes, times)
        times = comparable_times(times, self.segments.entry_time.dtype)
        if how == "uniform":
            return sample_before(self.segments, nodes, times, k, generator)
        return latest_before(self.segments, nodes, times, k)

    def count_before(self, nodes: Tensor, times: Tensor) -> Tensor:
        """Return how many events each node has strictly before its time."""
        check_queries(nodes, times)
        return count_before(self.segments, nodes, comparable_times(times, self.segments.entry_time.dtype))

    def evidence(self, spec: EvidenceSpec) -> Evidence:
        """Return counts of meetings, nodes and transitions before any time.

        They are built at the first call and follow the history when it grows. The beginning of a mapped
        history uses the counts of the whole: up to its end the two are equal.
        """
        if self.whole is not None:
            return self.whole.evidence(spec)
        if spec not in self._evidence:
            self._evidence[spec] = Evidence(self, spec)
        return self._evidence[spec]

    def event_indices(self) -> Tensor:
        """Return the positions of the indexed events in ascending order; ``only`` leaves some out."""
        indexed = torch.zeros(self.num_events, dtype=torch.bool, device=self.device)
        start, length = self.segments.start, self.segments.length
        with self.read_in_order():
            for first, last in node_ranges(length):
                entries = concatenated_ranges(start[first:last], length[first:last])
                indexed[self.segments.entry_event[entries].long()] = True
        return indexed.nonzero().squeeze(1)

    def nbytes(self) -> int:
        """Return the size of the index, without the event columns."""
        return sum(array.numel() * array.element_size() for array in self.segments.arrays().values())

    # -- updates ---------------------------------------------------------------------------------

    def append(
        self,
        src: Tensor,
        dst: Tensor,
        t: Tensor,
        features: Tensor | None = None,
        *,
        happened: Tensor | None = None,
        late: Tensor | None = None,
    ) -> None:
        """Add events in stream order; unknown nodes are added too.

        ``happened`` are the events' own times where they arrive out of order: then ``t`` is the clock of the
        stream, which ascends. An event that happened before another one of its nodes must be marked as
        ``late``; it is inserted at its place, which takes longer.

        Invalid events (times that decrease, say) raise ``DataError`` and leave the history unchanged.
        """
        if self.on_host:
            raise DataError("append: a history in pinned host memory cannot grow; use extended.")
        if self.whole is not None:
            raise DataError(
                "append: this history is the first part of an index and shares its arrays; append to the "
                "whole, or index these events alone with History.from_stream(stream[:n])."
            )
        rows = check_appended(self.events, src, dst, t, features)
        if not len(t):
            return
        if happened is not None:
            rows["happened"] = check_happened(happened, rows["t"])
        in_order = torch.ones_like(t, dtype=torch.bool) if late is None else ~check_late(late, happened, t)
        if happened is not None:
            check_order_of_nodes(self.segments, src[in_order], dst[in_order], rows["happened"][in_order])
        num_nodes = max(self.num_nodes, 1 + int(torch.maximum(src, dst).max()))
        if self._evidence:
            check_limits(num_nodes, longest_after(self.segments, src, dst))
        # Everything is checked; only now does anything change.
        first, end = self.num_events, self.num_events + len(t)
        if end >= MAX_INT32_EVENTS:
            self.segments.widen_events()
        self.grow(num_nodes)
        added = torch.arange(first, end, device=self.device)
        times = rows.get("happened", rows["t"])
        place(self.segments, added[in_order], src[in_order], dst[in_order], times[in_order])
        self.events.append(**rows)
        for evidence in self._evidence.values():
            evidence.append(self, added[in_order])
        for event in added[~in_order].tolist():
            insert_event(self, event, list(self._evidence.values()))

    def grow(self, num_nodes: int) -> None:
        """Make space for nodes ``0..num_nodes``; new ones have no events."""
        self.segments.reserve_nodes(num_nodes)
        self.num_nodes = max(self.num_nodes, num_nodes)

    def with_nodes(self, num_nodes: int) -> History:
        """Return this history with more nodes, without events; only to be read, since it shares the rest."""
        grown = replace(self, segments=copy(self.segments))
        grown.grow(num_nodes)
        return grown

    # -- persistence -----------------------------------------------------------------------------

    def save(self, folder: str | Path) -> None:
        """Write the history to a folder of ``.npy`` files, replacing one that is saved there already.

        An interrupted save leaves the old history intact.
        """
        with self.read_in_order():
            storage.save_arrays(Path(folder), self.saved_arrays())

    def saved_arrays(self) -> dict[str, Tensor]:
        """Return everything that ``save`` writes, by name and without spare capacity."""
        if "happened" in self.events.columns:
            raise DataError("save: a history with events that arrived out of order cannot be saved.")
        columns = {f"events.{name}": self.events[name] for name in self.events.columns}
        return columns | self.segments.trimmed(self.num_nodes)

    @classmethod
    def load(cls, folder: str | Path, *, mapped: bool = True) -> History:
        """Open a saved history; ``mapped`` leaves it on disk and reads the parts that queries need.

        Its index is checked first: a damaged one raises ``DataError``. Appending to a mapped history
        never changes its files.
        """
        folder = as_path(folder, "folder")
        arrays = storage.load_arrays(folder, mapped=mapped)
        check_saved(arrays, folder)
        columns = {name.removeprefix("events."): a for name, a in arrays.items() if "events." in name}
        index = {name: array for name, array in arrays.items() if "events." not in name}
        segments = Segments(
            **index,
            used=len(index["entry_event"]),
            longest=int(index["length"].max()) if len(index["length"]) else 0,
        )
        events = EventColumns(columns["src"], columns["dst"], columns["t"], columns.get("features"))
        return cls(events, segments, num_nodes=len(segments.start))
