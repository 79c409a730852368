"""The record of a batch in the event log."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from contig.data.columns import Array

FORMAT = 1
HEADER = struct.Struct("<BcIHI")  # format, kind of time, events, features per event, bytes of labels

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class BatchRecord:
    """Accepted events in node numbers, in the order in which they are applied.

    ``labels`` and ``is_dst`` are the ids of nodes that these events name first, and in a bipartite stream
    their sides. ``late`` marks events that become part of the history only.
    """

    src: Ints
    dst: Ints
    t: Array
    late: NDArray[np.bool_]
    features: NDArray[np.float32] | None
    labels: list[int | str]
    is_dst: list[bool]

    def __len__(self) -> int:
        return len(self.t)

    def is_in_order(self, clock: float) -> bool:
        """Return whether no event is late or before the clock of the stream."""
        return not self.late.any() and bool((self.t >= clock).all())

    def encode(self) -> bytes:
        """Return the record as bytes."""
        names = json.dumps([self.labels, self.is_dst]).encode() if self.labels else b""
        width = 0 if self.features is None else self.features.shape[1]
        kind = self.t.dtype.kind.encode()
        parts = [HEADER.pack(FORMAT, kind, len(self), width, len(names)), names]
        parts += [np.ascontiguousarray(column).tobytes() for column in (self.src, self.dst, self.t)]
        parts.append(np.packbits(self.late).tobytes())
        parts += [] if self.features is None else [np.ascontiguousarray(self.features).tobytes()]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes) -> BatchRecord:
        """Read a record; raise ``ValueError`` if it is not one."""
        if len(data) < HEADER.size:
            raise ValueError("the record is too short")
        version, kind, events, width, names = HEADER.unpack_from(data)
        sizes = [names, 8 * events, 8 * events, 8 * events, -(-events // 8), 4 * events * width]
        if version != FORMAT or kind not in (b"i", b"f") or len(data) != HEADER.size + sum(sizes):
            raise ValueError(f"the record of format {version} does not have the length of its content")
        ends = np.cumsum([HEADER.size, *sizes]).tolist()
        text, src, dst, t, late, features = (data[start:stop] for start, stop in pairwise(ends))
        labels, is_dst = json.loads(text) if names else ([], [])
        return cls(
            np.frombuffer(src, np.int64),
            np.frombuffer(dst, np.int64),
            np.frombuffer(t, np.int64 if kind == b"i" else np.float64),
            np.unpackbits(np.frombuffer(late, np.uint8), count=events).astype(bool),
            np.frombuffer(features, np.float32).reshape(events, width) if width else None,
            labels,
            is_dst,
        )


def in_order_runs(records: Iterable[BatchRecord], clock: float) -> Iterator[BatchRecord]:
    """Join successive records of events in order; any other record stays alone.

    Events in order can be applied together: none is visible to a batch that was complete before it. An event
    out of order is, so it must be applied at the same point of the stream every time, regardless
    of the batches that shared its transaction.
    """
    run: list[BatchRecord] = []
    for record in records:
        if record.is_in_order(clock):
            run.append(record)
        else:
            yield from (joined(part) for part in (run, [record]) if part)
            run = []
        clock = max([clock, *record.t[-1:].tolist()])
    if run:
        yield joined(run)


def joined(records: list[BatchRecord]) -> BatchRecord:
    """Return several records as one."""
    if len(records) == 1:
        return records[0]
    features = [record.features for record in records if record.features is not None]
    return BatchRecord(
        np.concatenate([record.src for record in records]),
        np.concatenate([record.dst for record in records]),
        np.concatenate([record.t for record in records]),
        np.concatenate([record.late for record in records]),
        np.concatenate(features) if features else None,
        [label for record in records for label in record.labels],
        [side for record in records for side in record.is_dst],
    )
