"""Small histories, and the same answers from Python lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

from contig.data.events import EventStream
from contig.data.ids import NodeIds
from contig.history import History, Neighbors
from contig.kernels.dispatch import disabled

Event = tuple[int, int, float]
Entry = tuple[int, int, float]  # other end, position in the stream, time
NODES = 6


def stream_of(events: list[Event], num_nodes: int = NODES, *, float_times: bool = False) -> EventStream:
    """Return a stream with exactly these node ids; ``from_arrays`` would renumber them."""
    src, dst, t = (np.array([e[i] for e in events]) for i in range(3))
    return EventStream(
        src=src.astype(np.int64),
        dst=dst.astype(np.int64),
        t=t.astype(np.float64 if float_times else np.int64),
        ids=NodeIds(np.arange(num_nodes)),
    )


def random_stream(rng: np.random.Generator, events: int, num_nodes: int, width: int = 0) -> EventStream:
    src, dst = rng.integers(0, num_nodes, (2, events))
    return EventStream(
        src=src,
        dst=dst,
        t=np.sort(rng.integers(0, events // 2, events)),
        ids=NodeIds(np.arange(num_nodes)),
        edge_features=rng.standard_normal((events, width)).astype(np.float32) if width else None,
    )


def rows_of(stream: EventStream) -> list[Tensor]:
    """Return the columns of a stream as ``append`` takes them."""
    columns: list[Any] = [stream.src, stream.dst, stream.t]
    columns += [] if stream.edge_features is None else [stream.edge_features]
    return [torch.from_numpy(column.copy()) for column in columns]


def tensors(events: list[Event], time_dtype: torch.dtype = torch.int64) -> tuple[Tensor, Tensor, Tensor]:
    src, dst, t = ([e[i] for e in events] for i in range(3))
    return torch.tensor(src).long(), torch.tensor(dst).long(), torch.tensor(t, dtype=time_dtype)


def past(events: list[Event], node: int, time: float, chosen: list[int] | None = None) -> list[Entry]:
    """Return all entries of a node before a time, the most recent first, one event at a time."""
    found = []
    for i in range(len(events)) if chosen is None else chosen:
        src, dst, t = events[i]
        if t < time and node in (src, dst):
            found.append((dst if node == src else src, i, t))
    return found[::-1]


def entries(answer: Neighbors) -> list[list[Entry]]:
    """Return each query's neighbors as tuples, without the padding."""
    columns = [x.tolist() for x in answer]
    return [
        [(n, e, t) for n, e, t, found in zip(*row, strict=True) if found]
        for row in zip(*columns, strict=True)
    ]


def reference(history: History, nodes: Tensor, times: Tensor, k: int) -> Neighbors:
    """Answer with torch operations alone."""
    with disabled():
        return history.before(nodes, times, k)


def assert_same(a: Neighbors, b: Neighbors) -> None:
    for name, x, y in zip(a._fields, a, b, strict=True):
        assert x.dtype == y.dtype, name
        assert torch.equal(x.cpu(), y.cpu()), name


def every_query(num_nodes: int, last: float) -> tuple[Tensor, Tensor]:
    """Return every node, and some unknown ids, at every half of a time unit."""
    node, time = np.meshgrid(np.arange(-1, num_nodes + 3), np.arange(-1, last + 2, 0.5))
    return torch.from_numpy(node.ravel()), torch.from_numpy(time.ravel())


_node_ids = st.integers(0, NODES - 1)


@st.composite
def event_lists(draw: st.DrawFn, min_size: int = 0, max_size: int = 25) -> list[Event]:
    """Draw events in time order, with many ties, self-loops and repetitions."""
    gaps = draw(st.lists(st.sampled_from([0, 0, 1, 2]), min_size=min_size, max_size=max_size))
    return [(draw(_node_ids), draw(_node_ids), t) for t in np.cumsum(gaps).tolist()]


def grown_history(width: int = 3) -> History:
    """Return a history of 41 events and 14 nodes, with spare capacity in every array."""
    stream = random_stream(np.random.default_rng(8), events=40, num_nodes=11, width=width)
    history = History.from_stream(stream[:7])
    history.append(*rows_of(stream[7:]))
    features = [torch.ones(1, width)] if width else []
    history.append(torch.tensor([13]), torch.tensor([2]), torch.tensor([30]), *features)
    return history
