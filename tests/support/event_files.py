"""The same events as files and tables of every kind."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contig.data.events import EventStream
from contig.data.readers import read_events
from contig.errors import DataError

duckdb = pytest.importorskip("duckdb")
pl = pytest.importorskip("polars")
JODIE_HEADER = "user_id,item_id,timestamp,state_label,comma_separated_list_of_features"


@dataclass(frozen=True)
class Events:
    """Plain Python columns, and the stream they are by the in-memory route."""

    src: Sequence[int | str]
    dst: Sequence[int | str]
    t: Sequence[int | float]
    label: Sequence[int] | None = None
    features: Sequence[Sequence[float]] | None = None

    def stream(self, bipartite: bool | None = None) -> EventStream:
        return EventStream.from_arrays(
            list(self.src),
            list(self.dst),
            np.array(self.t),
            label=self.label,
            edge_features=self.features,
            bipartite=bipartite,
        )

    def columns(self) -> dict[str, Sequence[Any]]:
        columns: dict[str, Sequence[Any]] = {"src": self.src, "dst": self.dst, "t": self.t}
        if self.label is not None:
            columns["label"] = self.label
        for i, feature in enumerate(zip(*(self.features or ()), strict=True)):
            columns[f"f{i}"] = feature
        return columns

    def table(self) -> pa.Table:
        return pa.table(dict(self.columns()))

    def rows(self) -> list[list[str]]:
        return [list(map(repr_number, row)) for row in zip(*self.columns().values(), strict=True)]


def repr_number(value: object) -> str:
    return value if isinstance(value, str) else repr(value)


def separated(events: Events, delimiter: str) -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter).writerows([list(events.columns()), *events.rows()])
    return text.getvalue()


# Each way to hand over the same events: writes below a folder, returns what read_events is given.


def as_csv(events: Events, folder: Path) -> Any:
    path = folder / "events.csv"
    path.write_text(separated(events, ","), encoding="utf-8", newline="")
    return path


def as_tsv(events: Events, folder: Path) -> Any:
    path = folder / "events.tsv"
    path.write_text(separated(events, "\t"), encoding="utf-8", newline="")
    return path


def as_gzip(events: Events, folder: Path) -> Any:
    path = folder / "events.csv.gz"
    path.write_bytes(gzip.compress(separated(events, ",").encode(), mtime=0))
    return path


def as_parquet(events: Events, folder: Path) -> Any:
    path = folder / "events.parquet"
    pq.write_table(events.table(), path, row_group_size=5)
    return path


def as_parquet_list(events: Events, folder: Path) -> Any:
    table = events.table().select(["src", "dst", "t"])
    if events.label is not None:
        table = table.append_column("label", pa.array(events.label))
    if events.features is not None:
        lists = pa.array(events.features, pa.list_(pa.float64(), len(events.features[0])))
        table = table.append_column("edge_features", lists)
    path = folder / "lists.parquet"
    pq.write_table(table, path)
    return str(path)


def as_folder(events: Events, folder: Path) -> Any:
    parts = folder / "parts"
    parts.mkdir(exist_ok=True)
    table, cut = events.table(), len(events.src) // 3 + 1
    pq.write_table(table.slice(cut), parts / "part-1.parquet")
    pq.write_table(table.slice(0, cut), parts / "part-0.parquet")
    (parts / "_SUCCESS").touch()
    return parts


def as_pandas(events: Events, folder: Path) -> Any:
    return pd.DataFrame({name: list(values) for name, values in events.columns().items()})


def as_polars(events: Events, folder: Path) -> Any:
    return pl.DataFrame({name: list(values) for name, values in events.columns().items()})


def as_duckdb(events: Events, folder: Path) -> Any:
    connection = duckdb.connect()
    connection.register("events", events.table())
    return connection.sql("select * from events")


def as_arrow(events: Events, folder: Path) -> Any:
    return events.table()


def as_reader(events: Events, folder: Path) -> Any:
    return events.table().to_reader(max_chunksize=3)


ROUTES: list[Callable[[Events, Path], Any]] = [
    *(as_csv, as_tsv, as_gzip, as_parquet, as_parquet_list, as_folder),
    *(as_pandas, as_polars, as_duckdb, as_arrow, as_reader),
]


def assert_same(stream: EventStream, expected: EventStream) -> None:
    assert stream.equals(expected)
    stream = replace(stream, edge_columns=())  # whether features are to be encoded is no matter of the events
    assert stream.ids.labels.tolist() == expected.ids.labels.tolist()
    assert stream.ids.labels.dtype.kind == expected.ids.labels.dtype.kind
    assert stream.t.dtype == expected.t.dtype
    assert stream.fingerprint() == expected.fingerprint()


def seven() -> Events:
    """Seven events between four sources and three destinations that share the numbers 1 and 2."""
    return Events(
        src=[1, 4, 1, 2, 30, 1, 2],
        dst=[2, 1, 9, 2, 1, 2, 9],
        t=[10, 12, 12, 15, 15, 15, 20],
        label=[0, 0, 1, 0, 0, 1, 0],
        features=[[0.5, i / 3] for i in range(7)],
    )


def rejection(source: Any, **arguments: Any) -> str:
    with pytest.raises(DataError) as caught:
        read_events(source, **arguments)
    return str(caught.value)
