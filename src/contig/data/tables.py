"""Streams as tables that readers read back."""

from __future__ import annotations

import pyarrow as pa

from contig.data.events import EventStream


def stream_table(stream: EventStream) -> pa.Table:
    """Return the events with the user's ids; features are a list column."""
    labels = stream.ids.labels
    columns = {"src": labels[stream.src], "dst": labels[stream.dst], "t": stream.t}
    if stream.label is not None:
        columns["label"] = stream.label
    table = pa.table(columns)
    if stream.edge_features is None:
        return table
    return table.append_column("features", pa.array(list(stream.edge_features)))
