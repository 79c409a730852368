"""Objects of other packages, read as events and compared with the arrays they hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.event_files import assert_same, pl

from contig.data.events import EventStream
from contig.data.readers import read_events
from contig.errors import ConfigError, DataError

SRC, DST, T = ["ann", "bob", "ann"], ["tea", "tea", "cake"], [3, 5, 9]
FEATURES = np.array([[1.5, -2.0], [0.25, 8.0], [3.0, 4.0]], dtype=np.float32)


def expected(**more: Any) -> EventStream:
    return EventStream.from_arrays(SRC, DST, T, **more)


@pytest.mark.parametrize(
    "columns",
    [
        {"src": SRC, "dst": DST, "t": T},
        {"user": np.array(SRC), "item": tuple(DST), "when": np.array(T, dtype=np.int32)},
        {"sources": SRC, "destinations": DST, "timestamps": T, "edge_idxs": [7, 8, 9]},
    ],
)
def test_a_dict_of_columns(columns: dict[str, Any]) -> None:
    options = {"t": "when"} if "when" in columns else {}
    assert_same(read_events(columns, **options), expected())


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int64", "bool"])
def test_features_of_every_number_type_in_a_dict(dtype: str) -> None:
    features = np.array([[1, 0], [0, 1], [1, 1]], dtype=dtype)
    stream = read_events({"src": SRC, "dst": DST, "t": T, "edge_feat": features, "y": [0, 1, 0]})
    assert_same(stream, expected(edge_features=features.astype(np.float32), label=[0, 1, 0]))


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(DataError, match=r"columns differ in length \(src 3, dst 3, t 2\)"):
        read_events({"src": SRC, "dst": DST, "t": [1, 2]})


def test_a_format_is_for_files() -> None:
    with pytest.raises(ConfigError, match="format='csv' is for files"):
        read_events({"src": SRC, "dst": DST, "t": T}, format="csv")


def test_a_lazy_frame_computes_the_columns_of_the_events_alone() -> None:
    computed = []

    def note(batch: Any) -> Any:
        computed.append(1)
        return batch

    frame = pl.LazyFrame({"src": SRC, "dst": DST, "t": T, "features": FEATURES.tolist()})
    frame = frame.with_columns(other=pl.col("t").map_batches(note, return_dtype=pl.Int64))
    assert_same(read_events(frame), expected(edge_features=FEATURES))
    assert computed == []
    assert_same(read_events(frame, t="other", features=False), expected())
    assert computed


def test_a_networkx_graph_gives_an_event_per_edge() -> None:
    nx = pytest.importorskip("networkx")
    graph = nx.MultiDiGraph()
    for src, dst, t, row in zip(SRC, DST, T, FEATURES.tolist(), strict=True):
        graph.add_edge(src, dst, time=t, msg=row, weight=2.0)
    assert_same(read_events(graph), expected(edge_features=FEATURES))
    weighted = expected(edge_features=np.full((3, 1), 2.0, dtype=np.float32))
    assert_same(read_events(graph, features=["weight"]), weighted)


def test_a_graph_without_edges_or_times_is_refused() -> None:
    nx = pytest.importorskip("networkx")
    with pytest.raises(DataError, match="the graph has no edges"):
        read_events(nx.DiGraph())
    with pytest.raises(DataError, match=r"events need three columns.*found only 'src' and 'dst'"):
        read_events(nx.DiGraph([("ann", "tea")]))
    graph = nx.DiGraph([("ann", "tea")])
    graph.add_edge("bob", "tea", time=4)
    with pytest.raises(DataError, match="the time is missing"):
        read_events(graph)


def test_a_temporal_graph_has_times_or_snapshots() -> None:
    nx, tx = pytest.importorskip("networkx"), pytest.importorskip("networkx_temporal")
    graph = nx.MultiDiGraph()
    for src, dst, t in zip(SRC, DST, T, strict=True):
        graph.add_edge(src, dst, time=t)
    assert_same(read_events(tx.from_static(graph).slice(attr="time")), expected())
    parts = [nx.DiGraph([(src, dst)]) for src, dst in zip(SRC, DST, strict=True)]
    snapshots = read_events(tx.from_snapshots(parts))
    assert_same(snapshots, EventStream.from_arrays(SRC, DST, [0, 1, 2]))


@pytest.mark.parametrize("kind", ["int64", "int32", "float64", "float32"])
def test_a_temporal_data(kind: str) -> None:
    torch, data = pytest.importorskip("torch"), pytest.importorskip("torch_geometric.data")
    columns = {
        "src": torch.tensor([4, 5, 4]),
        "dst": torch.tensor([7, 7, 9]),
        "t": torch.tensor(T, dtype=getattr(torch, kind)),
        "msg": torch.from_numpy(FEATURES),
        "y": torch.tensor([1, 0, 1]),
    }
    exact = np.array(T, dtype=np.float64 if kind.startswith("float") else np.int64)
    stream = EventStream.from_arrays([4, 5, 4], [7, 7, 9], exact, edge_features=FEATURES, label=[1, 0, 1])
    assert_same(read_events(data.TemporalData(**columns)), stream)


def test_other_objects_are_refused() -> None:
    with pytest.raises(DataError, match="Cannot read events from an object of type set; pass a path"):
        read_events({1, 2})
