"""Events in the order in which a trained run learned of them; late ones are part of the history alone."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contig.data.columns import Array, frozen
from contig.data.events import EventStream
from contig.data.growing import GrowingIds
from contig.errors import RunError
from contig.history import History
from contig.history.columns import as_tensor
from contig.models import Model, NodeState
from contig.streaming.batches import StreamBatches, append_events, warm_up

Ints = NDArray[np.int64]


class NewEvents(NamedTuple):
    """Events by internal ids, and the nodes that are new with them.

    Late events come first; the others are in time order.
    """

    src: Ints
    dst: Ints
    t: Array
    features: Array | None
    labels: list[int | str]  # of the new nodes, in the order of their numbers
    is_dst: list[bool] | None
    late: NDArray[np.bool_]

    def tensors(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
        """Return the columns as ``append_events`` takes them."""
        features = None if self.features is None else as_tensor(self.features, device)
        late = as_tensor(self.late, device) if self.late.any() else None
        columns = (as_tensor(column, device) for column in (self.src, self.dst, self.t))
        return (*columns, features, late)  # type: ignore[return-value]


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Events in the order of their arrival.

    The times of ``stream`` ascend: a late event has that of the clock, the latest time so far. ``happened``
    are the events' own times if some are late, and ``late`` the positions of those.
    """

    stream: EventStream
    happened: Array | None = None
    late: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.stream)

    @property
    def times(self) -> Array:
        """The events' own times."""
        return self.stream.t if self.happened is None else self.happened

    @cached_property
    def in_time_order(self) -> EventStream:
        """The events by their own times; at equal times by arrival."""
        return self.sorted(self.stream)

    def sorted(self, stream: EventStream) -> EventStream:
        """Return a stream of the same events by their own times."""
        if self.happened is None:
            return stream
        order = np.argsort(self.happened, kind="stable")
        names = ("src", "dst", "label", "edge_features")
        columns = {name: column for name in names if (column := getattr(stream, name)) is not None}
        changed: dict[str, Any] = {name: frozen(column[order]) for name, column in columns.items()}
        return replace(stream, t=frozen(self.happened[order]), **changed)

    def extended(self, new: NewEvents, new_node: Array | None = None) -> Arrivals:
        """Return these events followed by others; ``new_node`` are the features of new nodes (zeros)."""
        old, ids = self.stream, GrowingIds(self.stream.ids)
        ids.add(new.labels, new.is_dst)
        times = np.concatenate([self.times, new.t])
        late = np.concatenate([self.late, len(self) + np.flatnonzero(new.late)])
        nodes, edges = old.node_features, old.edge_features
        if nodes is not None:
            nodes = frozen(np.concatenate([nodes, new_rows(len(new.labels), nodes.shape[1], new_node)]))
        if edges is not None and new.features is not None:
            edges = frozen(np.concatenate([edges, new.features]))
        stream = replace(
            old,
            src=frozen(np.concatenate([old.src, new.src])),
            dst=frozen(np.concatenate([old.dst, new.dst])),
            t=frozen(np.maximum.accumulate(times) if len(late) else times),
            ids=ids.ids,
            label=None,
            edge_features=edges,
            node_features=nodes,
        )
        return Arrivals(stream, frozen(times) if len(late) else None, late)

    def with_nodes(
        self, labels: list[int | str], is_dst: list[bool] | None, new_node: Array | None = None
    ) -> Arrivals:
        """Return the same events with more nodes, which have none."""
        ids, nodes = GrowingIds(self.stream.ids), self.stream.node_features
        ids.add(labels, is_dst)
        if nodes is not None:
            nodes = frozen(np.concatenate([nodes, new_rows(len(labels), nodes.shape[1], new_node)]))
        return replace(self, stream=replace(self.stream, ids=ids.ids, node_features=nodes))

    def tail(self, first: int, nodes: int) -> NewEvents:
        """Return the events from a position on; the first ones name the first ``nodes`` nodes."""
        stream, late = self.stream, np.zeros(len(self), dtype=bool)
        late[self.late] = True
        features = None if stream.edge_features is None else stream.edge_features[first:]
        is_dst = stream.ids.is_dst
        return NewEvents(
            stream.src[first:],
            stream.dst[first:],
            self.times[first:],
            features,
            stream.ids.labels[nodes:].tolist(),
            None if is_dst is None else is_dst[nodes:].tolist(),
            late[first:],
        )

    def index(self, model: Model, state: NodeState) -> History:
        """Index the events where a state is; the evidence that the model needs knows the late ones too."""
        if not len(self.late):
            return index_stream(self.stream, state)
        if state.on_host:
            raise RunError(
                "Late events cannot be indexed in pinned host memory; open the run on the CPU (--device cpu)."
            )
        first = int(self.late[0])
        history = index_stream(self.stream[:first], state)
        warm_up(model, history)
        new = self.tail(first, self.stream.num_nodes)
        append_events(StreamBatches(history, 1), *new.tensors(history.device))
        history.grow(self.stream.num_nodes)
        return history


def index_stream(stream: EventStream, state: NodeState) -> History:
    """Index a stream where the state is: on its device, or in pinned host memory."""
    history = History.from_stream(stream, "cpu" if state.on_host else state.device)
    return history.pinned_copy(state.device) if state.on_host else history


def new_rows(count: int, width: int, new_node: Array | None) -> NDArray[np.float32]:
    """Return the features of nodes about which nothing is known."""
    row = np.zeros(width, np.float32) if new_node is None else new_node
    return np.tile(row, (count, 1)).astype(np.float32)
