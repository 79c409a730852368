"""Deciding what becomes of a batch, before it is written to the log and applied."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from contig.data.clock import TimeSpan
from contig.data.columns import Array
from contig.errors import DataError
from contig.kernels.lookup import last_times
from contig.live.answers import Receipt, Rejection
from contig.live.events import CheckedEvents
from contig.live.graph import LiveGraph
from contig.live.ids import NodeIndex
from contig.live.log import EventLog, NewBatch
from contig.live.records import BatchRecord
from contig.live.settings import Settings

Ints = NDArray[np.int64]


class Staging:
    """The batches of one transaction: decided, but neither written nor applied.

    New ids are added to the index at once, where readers ignore them until their events are applied;
    ``discard`` takes them back.
    """

    def __init__(self, graph: LiveGraph, ids: NodeIndex, log: EventLog, settings: Settings) -> None:
        self.graph, self.ids, self.log, self.settings = graph, ids, log, settings
        self.batches: list[NewBatch] = []
        self._nodes = len(ids)
        self._last: dict[int, Any] = {}  # times of the nodes' last events, of staged batches
        self._clock = graph.clock
        self._receipts: dict[str, NewBatch] = {}

    def add(self, events: CheckedEvents, batch_id: str | None) -> Receipt:
        """Decide about a batch and return its receipt; raise ``DataError`` for a batch id of other events."""
        digest = 0
        if batch_id is not None:
            digest = events.digest()
            if (known := self._known(batch_id, digest)) is not None:
                return known
        src, dst = self._numbers(events.src, dst=False), self._numbers(events.dst, dst=True)
        bounds = np.stack([self._last_times(src, events.t), self._last_times(dst, events.t)])
        late = events.t < bounds.max(axis=0)
        accepted = np.ones_like(late) if self.settings.late == "accept" else ~late
        rejected = [] if self.settings.late == "accept" else self._rejections(events, bounds, late)
        record = self._record(events, src, dst, np.flatnonzero(accepted), late)
        receipt = Receipt(len(record), rejected, False, self._clock)
        self.batches.append(NewBatch(record, receipt, batch_id, digest))
        if batch_id is not None:
            self._receipts[batch_id] = self.batches[-1]
        return receipt

    def discard(self) -> None:
        """Forget the new ids."""
        self.ids.truncate(self._nodes)

    def _known(self, batch_id: str, digest: int) -> Receipt | None:
        """Return the receipt of a batch id that was used before."""
        if (staged := self._receipts.get(batch_id)) is not None:
            found, receipt = staged.digest, staged.receipt
        elif (stored := self.log.receipt(batch_id)) is not None:
            found, receipt = stored
        else:
            return None
        if found != digest:
            raise DataError(f"The batch id {batch_id!r} was used for other events; choose a new one.")
        return Receipt(receipt.accepted, receipt.rejected, True, receipt.last_time)

    def _numbers(self, labels: list[int | str], *, dst: bool) -> Ints:
        return np.array(self.ids.numbers_of(labels, dst=dst), dtype=np.int64)

    def _last_times(self, nodes: Ints, t: Array) -> Array:
        """Return the times of the nodes' last events; those of new nodes are not after any of ``t``."""
        found, known = last_times(self.graph.history.segments, torch.from_numpy(nodes).to(self._device))
        lowest = t[0]  # times ascend
        last: Array = np.where(known.cpu().numpy(), found.cpu().numpy(), lowest)
        if self._last:
            staged = [self._last.get(node, lowest) for node in nodes.tolist()]
            last = np.maximum(last, np.array(staged, dtype=t.dtype))
        return last

    @property
    def _device(self) -> torch.device:
        return self.graph.history.device

    def _rejections(self, events: CheckedEvents, bounds: Array, late: NDArray[np.bool_]) -> list[Rejection]:
        if not late.any():
            return []
        found, span = [], TimeSpan.of(self.graph.history.events["t"][[0, -1]].cpu().numpy())
        for at in np.flatnonzero(late).tolist():
            side = int(bounds[1, at] > bounds[0, at])
            node, last = (events.src, events.dst)[side][at], span.written(bounds[side, at].item())
            reason = (
                f"t={span.written(events.t[at].item())} is before the last event of node {node!r}, at {last}."
            )
            found.append(Rejection(int(events.row[at]), reason))
        return sorted(found)

    def _record(
        self, events: CheckedEvents, src: Ints, dst: Ints, rows: Ints, late: NDArray[np.bool_]
    ) -> BatchRecord:
        """Return the accepted events in node numbers; nodes that they name first are added."""
        before = len(self.ids)
        src, dst, t = src[rows], dst[rows], events.t[rows]
        for at in np.flatnonzero((src < 0) | (dst < 0)).tolist():
            row = int(rows[at])
            src[at] = self._number(events.src[row], dst=False)
            dst[at] = self._number(events.dst[row], dst=True)
        features = None if events.features is None else events.features[rows]
        for node, time in zip(np.concatenate([src, dst]).tolist(), np.tile(t, 2).tolist(), strict=True):
            self._last[node] = max(self._last.get(node, time), time)
        self._clock = max([self._clock, *t[-1:].tolist()])
        labels, sides = self.ids.labels[before:], self.ids.is_dst[before:]
        return BatchRecord(src, dst, t, late[rows], features, labels, sides)

    def _number(self, label: int | str, *, dst: bool) -> int:
        number = self.ids.number_of(label, dst=dst)
        return self.ids.add(label, dst=dst) if number < 0 else number
