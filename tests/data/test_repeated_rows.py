"""Repeated rows of a stream, against a count of the rows as Python objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from contig.data.events import EventStream
from contig.data.feature_columns import FeatureColumn
from contig.data.readers import read_events
from contig.data.repeated_rows import numbered_rows, repeated_rows
from contig.data.storage import load_stream, save_stream

Row = tuple[int, int, int, float, float]


def counted_rows(rows: list[Row], width: int) -> int:
    """How many rows are left when the first of each kind is taken away."""
    kinds = Counter(str(row[: 3 + width]) for row in rows)  # as text, missing values are equal
    return sum(kinds.values()) - len(kinds)


def stream_of(rows: list[Row], width: int) -> EventStream:
    src, dst, t, *values = (list(column) for column in zip(*rows, strict=True))
    names = [f"c{i}" for i in range(width)]
    columns = {"src": src, "dst": dst, "t": t} | dict(zip(names, values[:width], strict=True))
    return read_events(columns, features=names, bipartite=True)


@pytest.mark.parametrize("width", [0, 1, 2])
def test_the_count_is_that_of_equal_rows(width: int) -> None:
    """In any order, with missing values, and from none to most of the rows."""
    rng, found = np.random.default_rng(4), []
    for size in range(1, 40):
        columns = [rng.integers(0, top, size).tolist() for top in (3, 2, 6)]
        columns += [rng.choice(values, size).tolist() for values in ([0.0, 1.5, np.nan], [2.0, np.nan])]
        rows = list(zip(*columns, strict=True))
        found.append(repeated_rows(stream_of(rows, width)))
        assert found[-1] == counted_rows(rows, width)
    assert found[0] == 0
    assert len(set(found)) > 4


def test_labels_do_not_make_events_different_but_every_feature_does() -> None:
    src, dst, t = [1, 1, 1, 2, 1, 1], [7, 7, 7, 7, 8, 7], [5, 5, 5, 5, 5, 6]
    label = [0, 1, 0, 0, 0, 0]
    assert repeated_rows(EventStream.from_arrays(src, dst, t, label=label)) == 2
    features = [[0, 1, 2], [0, 1, 2], [0, 1, 3], [0, 1, 2], [0, 1, 2], [0, 1, 2]]
    stream = EventStream.from_arrays(src, dst, t, label=label, edge_features=features)
    assert repeated_rows(stream) == 1
    assert repeated_rows(stream[1:]) == 0
    assert repeated_rows(stream[3:3]) == 0
    assert repeated_rows(EventStream.from_arrays(src, dst, t, edge_features=np.zeros((6, 0)))) == 2


def test_categories_count_as_features() -> None:
    columns = {"src": [1, 1, 1], "dst": [2, 2, 2], "t": [3, 3, 3], "kind": ["a", "b", "a"]}
    stream = read_events(columns, features=["kind"])
    assert stream.edge_columns == (FeatureColumn("kind", ("a", "b")),)
    assert repeated_rows(stream) == 1
    assert repeated_rows(read_events(columns, features=False)) == 2


def test_nothing_is_read_of_an_index_on_disk(tmp_path: Path) -> None:
    stream = EventStream.from_arrays([1, 1], [2, 2], [3, 3])
    save_stream(stream, tmp_path)
    assert repeated_rows(stream) == 1
    assert repeated_rows(load_stream(tmp_path)) is None


def test_equal_rows_share_a_number() -> None:
    """In all columns, of which one holds vectors, against a search among the earlier rows."""
    rng = np.random.default_rng(2)
    one, other, vectors = rng.integers(0, 3, 50), rng.random(50).round(0), rng.integers(0, 2, (50, 3))
    numbers = numbered_rows([one, other, vectors.astype(np.float32)])
    rows = [(a, b, tuple(v)) for a, b, v in zip(one.tolist(), other.tolist(), vectors.tolist(), strict=True)]
    first = [rows.index(row) for row in rows]
    assert [numbers[i] == numbers[j] for i in range(50) for j in range(50)] == [
        a == b for a in first for b in first
    ]


@pytest.mark.parametrize("name", ["wikipedia", "mooc", "collegemsg", "bitcoin_otc", "enron"])
def test_real_streams(name: str, real_stream: Callable[[str], EventStream]) -> None:
    stream = real_stream(name)
    features = [b""] * len(stream) if stream.edge_features is None else map(bytes, stream.edge_features)
    rows = zip(stream.src.tolist(), stream.dst.tolist(), stream.t.tolist(), features, strict=True)
    assert repeated_rows(stream) == len(stream) - len(set(rows))
