"""Sending a stream of events to a service in batches, so that a repetition is harmless."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeVar

import pyarrow as pa

from contig.data.events import EventStream
from contig.data.feature_columns import RawFeatures, arrow_columns
from contig.serve.client import Client, RejectedEvent, SentBatch, ServiceError

TRANSIENT = frozenset({0, 429, 500, 502, 503, 504, 507})  # 0: no answer at all
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 5.0  # seconds between two tries
SHOWN_REJECTIONS = 20

Answer = TypeVar("Answer")


class Batch(NamedTuple):
    """Consecutive events of a stream, and a name that is the same whenever they are sent."""

    id: str
    events: pa.Table


@dataclass
class Summary:
    """What became of the events that were sent."""

    accepted: int = 0
    repeated: int = 0  # known from an earlier time
    rejected: int = 0
    examples: list[RejectedEvent] = field(default_factory=list)  # rows of the stream

    def add(self, receipt: SentBatch, first_row: int) -> None:
        """Count a batch that starts at a row of the stream."""
        if receipt.repeated:
            self.repeated += receipt.accepted
        else:
            self.accepted += receipt.accepted
        self.rejected += len(receipt.rejected)
        room = SHOWN_REJECTIONS - len(self.examples)
        self.examples += [RejectedEvent(first_row + r.row, r.reason) for r in receipt.rejected[:room]]


def batches(stream: EventStream, size: int) -> Iterator[Batch]:
    """Cut a stream into batches; a batch is named by the stream's fingerprint, its place and its size."""
    name, labels = _fingerprint(stream), stream.ids.labels
    for start in range(0, len(stream), size):
        part = slice(start, min(start + size, len(stream)))
        columns = {"src": labels[stream.src[part]], "dst": labels[stream.dst[part]], "t": stream.t[part]}
        arrays = {column: pa.array(values) for column, values in columns.items()}
        if stream.edge_features is not None:
            arrays["features"] = _named(stream, part) if stream.edge_columns else _lists(stream, part)
        yield Batch(f"{name}-{part.start}-{part.stop}", pa.table(arrays))


def _fingerprint(stream: EventStream) -> str:
    """Return a checksum of the events and the user's ids, which ``EventStream.fingerprint`` leaves out."""
    digest = hashlib.sha256(stream.fingerprint().encode())
    digest.update(json.dumps(stream.ids.labels.tolist()).encode())
    return digest.hexdigest()[:24]


def _named(stream: EventStream, part: slice) -> pa.StructArray:
    """Return the feature columns of a file by name, as they are in it."""
    assert stream.edge_features is not None
    columns = arrow_columns(RawFeatures(stream.edge_features[part], stream.edge_columns))
    return pa.StructArray.from_arrays(list(columns.values()), list(columns))


def _lists(stream: EventStream, part: slice) -> pa.Array:
    features = stream.edge_features
    assert features is not None
    values = pa.array(features[part].reshape(-1), pa.float32())
    return pa.FixedSizeListArray.from_arrays(values, features.shape[1])


def send(
    client: Client,
    stream: EventStream,
    size: int,
    patience: float = 60.0,
    advance: Callable[[int], None] = lambda events: None,
) -> Summary:
    """Send a stream in batches, in order, and wait for each to be on disk.

    If the service does not answer, or is full or overloaded, a batch is sent again for ``patience`` seconds.
    After an interruption, sending everything again continues where it stopped: the service recognizes the
    batches it has, provided that ``size`` is the same.
    """
    summary = Summary()
    for number, batch in enumerate(batches(stream, size)):
        summary.add(patiently(partial(client.observe, batch.events, batch.id), patience), number * size)
        advance(batch.events.num_rows)
    return summary


def patiently(request: Callable[[], Answer], patience: float) -> Answer:
    """Return the answer to a request, sent again for ``patience`` seconds while the service is not ready."""
    deadline, pause = time.monotonic() + patience, FIRST_PAUSE
    while True:
        try:
            return request()
        except ServiceError as error:
            if error.status not in TRANSIENT or time.monotonic() + pause > deadline:
                raise
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
