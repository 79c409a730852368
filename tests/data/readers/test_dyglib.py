from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.event_files import assert_same

from contig.data.events import EventStream
from contig.data.readers import read_events
from contig.errors import DataError

EDGES = np.array([[0, 0], [1.5, 2], [3, 4.25], [5, 6]])  # row 0 is padding
CSV = ",u,i,ts,label,idx\n0,1,3,5.0,0.0,1\n1,2,3,7.0,1.0,3\n2,1,4,7.0,0.0,2\n"


def dyglib(folder: Path, edges: np.ndarray | None = EDGES, nodes: np.ndarray | None = None) -> Path:
    (folder / "ml_shop.csv").write_text(CSV)
    for name, rows in (("ml_shop.npy", edges), ("ml_shop_node.npy", nodes)):
        if rows is not None:
            np.save(folder / name, rows)
    return folder / "ml_shop.csv"


def test_features_belong_to_the_event_with_their_number(tmp_path: Path) -> None:
    stream = read_events(dyglib(tmp_path, nodes=np.arange(10.0).reshape(5, 2)))
    expected = EventStream.from_arrays(
        *([1, 2, 1], [3, 3, 4], [5.0, 7.0, 7.0]), label=[0, 1, 0], edge_features=EDGES[[1, 3, 2]]
    )
    assert_same(stream, expected.with_node_features([[2, 3], [4, 5], [6, 7], [8, 9]]))


def test_zeros_are_no_features(tmp_path: Path) -> None:
    stream = read_events(dyglib(tmp_path, np.zeros((4, 3)), np.zeros((5, 2))))
    assert stream.edge_features is None
    assert stream.node_features is None


def test_features_can_be_left_out(tmp_path: Path) -> None:
    assert read_events(dyglib(tmp_path), features=False).edge_features is None


def test_the_events_alone_are_a_csv_file(tmp_path: Path) -> None:
    assert read_events(dyglib(tmp_path, edges=None)).t.tolist() == [5.0, 7.0, 7.0]


def test_features_of_other_events_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"ml_shop.npy: 3 rows, but 'idx' runs to 3"):
        read_events(dyglib(tmp_path, EDGES[:3]))
    with pytest.raises(DataError, match=r"ml_shop_node.npy: 4 rows for nodes up to 4"):
        read_events(dyglib(tmp_path, nodes=np.ones((4, 2))))
    (tmp_path / "ml_shop_node.npy").unlink()
    with pytest.raises(DataError, match="not rows of numbers"):
        read_events(dyglib(tmp_path, np.ones(4)))
