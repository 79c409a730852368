"""Small event streams to try a model on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from contig.data.events import EventStream
from contig.data.ids import NodeIds

Event = tuple[int, int, float]  # source, destination, time


def stream_of(
    events: Sequence[Event],
    num_nodes: int,
    *,
    features: NDArray[np.float64] | None = None,
    float_times: bool = False,
) -> EventStream:
    """Make a stream that keeps these node numbers (``EventStream.from_arrays`` assigns new ones)."""
    src, dst, t = (np.array([event[i] for event in events]) for i in range(3))
    return EventStream(
        src=src.astype(np.int64),
        dst=dst.astype(np.int64),
        t=t.astype(np.float64 if float_times else np.int64),
        ids=NodeIds(np.arange(num_nodes)),
        edge_features=None if features is None else features.astype(np.float32),
    )


def random_stream(
    seed: int, *, events: int = 40, num_nodes: int = 9, edge_width: int = 3, start: int = 0
) -> EventStream:
    """Draw a stream at random: more than half of the events share a time, and some are self-loops."""
    rng = np.random.default_rng(seed)
    return EventStream(
        src=rng.integers(0, num_nodes, events),
        dst=rng.integers(0, num_nodes, events),
        t=start + np.cumsum(rng.integers(0, 5, events) * rng.integers(0, 2, events)),
        ids=NodeIds(np.arange(num_nodes)),
        edge_features=rng.normal(size=(events, edge_width)).astype(np.float32) if edge_width else None,
    )


def with_events(stream: EventStream, order: NDArray[np.int64]) -> EventStream:
    """Make a stream of these rows of ``stream``, in this order."""
    features = stream.edge_features
    return replace(
        stream,
        src=stream.src[order],
        dst=stream.dst[order],
        t=stream.t[order],
        edge_features=None if features is None else features[order],
    )
