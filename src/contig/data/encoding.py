"""Encoding the features of a stream: the plan is made on the training part and kept with the run."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from contig.data.columns import frozen
from contig.data.events import EventStream
from contig.data.feature_columns import FeatureColumn, RawFeatures
from contig.data.feature_plan import FeaturePlan
from contig.data.splits import Split
from contig.schema import Record


@dataclass(frozen=True, kw_only=True, eq=False)
class FeaturePlans(Record):
    """How the features of events and of nodes are encoded; None for those that are taken as they are."""

    events: FeaturePlan | None = None
    nodes: FeaturePlan | None = None

    @property
    def new_node(self) -> NDArray[np.float32] | None:
        """The encoded features of a node about which nothing is known; None if nodes have no plan."""
        if self.nodes is None:
            return None
        unknown = np.full((1, len(self.nodes.inputs)), np.nan, np.float32)
        row: NDArray[np.float32] = self.nodes.encode_matrix(unknown, "a new node")[0]
        return row


def to_encode(stream: EventStream) -> EventStream:
    """Mark the features of a stream as columns of numbers that are still to be encoded."""
    if stream.edge_features is None or stream.edge_columns:
        return stream
    return replace(stream, edge_columns=tuple(FeatureColumn(f"f{i}") for i in range(stream.edge_width)))


def encoded(stream: EventStream, split: Split) -> tuple[EventStream, FeaturePlans | None]:
    """Encode the features that a stream has as columns, by plans that are made on the training part.

    The training part is the events of ``split.train``, and the nodes of these events.
    """
    if not (stream.edge_columns or stream.node_columns):
        return stream, None
    events = nodes = None
    edge_features, node_features = stream.edge_features, stream.node_features
    if stream.edge_columns and edge_features is not None:
        raw = RawFeatures(edge_features, stream.edge_columns)
        events = FeaturePlan.fit(raw, split.train)
        edge_features = frozen(events.encode(raw, stream.origin))
    if stream.node_columns and node_features is not None:
        raw = RawFeatures(node_features, stream.node_columns)
        nodes = FeaturePlan.fit(raw, np.flatnonzero(~split.new_nodes))
        node_features = frozen(nodes.encode(raw, stream.origin))
    ready = replace(
        stream, edge_features=edge_features, node_features=node_features, edge_columns=(), node_columns=()
    )
    return ready, FeaturePlans(events=events, nodes=nodes)
