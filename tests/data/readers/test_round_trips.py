"""The same events from every kind of table and file, whatever the types of their columns."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

from contig.data.events import EventStream
from contig.data.readers import read_events

SRC, DST, LABEL = [3, 1, 3, 2, 1], [7, 8, 9, 7, 7], [0, 1, 1, 0, 1]
TIMES = [
    1_714_521_600,
    1_714_521_660,
    1_714_521_660,
    1_714_608_000,
    1_714_694_400,
]  # midnights and a minute later
AMOUNT = [0.5, -1.25, 3.0, 0.0, 8.75]
DATES = [datetime.fromtimestamp(t, UTC) for t in TIMES]


def as_json_lines(table: pa.Table, path: Path) -> Path:
    import json

    lines = [json.dumps(row, default=lambda value: value.isoformat()) for row in table.to_pylist()]
    path.write_text("\n".join(lines) + "\n")
    return path


def as_csv(table: pa.Table, path: Path, delimiter: str = ",") -> Path:
    plain = pa.table({name: _plain(table.column(name)) for name in table.column_names})
    pa.csv.write_csv(plain, path, pa.csv.WriteOptions(delimiter=delimiter))
    return path


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """CSV has no categories, and writes booleans as words."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def as_parquet(table: pa.Table, path: Path) -> Path:
    pa.parquet.write_table(table, path)
    return path


def as_arrow(table: pa.Table, path: Path) -> Path:
    pa.feather.write_feather(table, str(path))
    return path


def as_duckdb(table: pa.Table, path: Path) -> Any:
    duckdb = pytest.importorskip("duckdb", reason="needs duckdb")
    return duckdb.from_arrow(table)


def as_polars(table: pa.Table, path: Path) -> Any:
    return pytest.importorskip("polars", reason="needs polars").from_arrow(table)


CONTAINERS: dict[str, Callable[[pa.Table, Path], Any]] = {
    "arrow table": lambda table, path: table,
    "arrow reader": lambda table, path: table.to_reader(),
    "pandas": lambda table, path: table.to_pandas(),
    "polars": as_polars,
    "polars lazy": lambda table, path: as_polars(table, path).lazy(),
    "duckdb": as_duckdb,
    "dict": lambda table, path: {name: table.column(name).to_pylist() for name in table.column_names},
    "csv": lambda table, path: as_csv(table, path / "events.csv"),
    "semicolons": lambda table, path: as_csv(table, path / "events.csv", ";"),
    "json lines": lambda table, path: as_json_lines(table, path / "events.jsonl"),
    "parquet": lambda table, path: as_parquet(table, path / "events.parquet"),
    "arrow file": lambda table, path: as_arrow(table, path / "events.arrow"),
}

UTC_TIME = {unit: pa.timestamp(unit, "UTC") for unit in ("s", "ms", "us", "ns")}
COLUMNS: dict[str, tuple[str, pa.Array]] = {  # the column, and its values in a type
    **{
        f"src {kind}": ("src", pa.array(SRC, kind)) for kind in ("int8", "uint16", "int32", "int64", "uint64")
    },
    "src float": ("src", pa.array(SRC, "float64")),
    **{f"t {kind}": ("t", pa.array(TIMES, kind)) for kind in ("int32", "uint32", "int64", "float64")},
    **{f"t timestamp {unit}": ("t", pa.array(DATES, kind)) for unit, kind in UTC_TIME.items()},
    "t without a zone": ("t", pa.array([date.replace(tzinfo=None) for date in DATES], pa.timestamp("us"))),
    "t text": ("t", pa.array([date.isoformat() for date in DATES])),
    **{f"label {kind}": ("label", pa.array(LABEL, kind)) for kind in ("int8", "uint8", "int64", "float32")},
    "label bool": ("label", pa.array([bool(y) for y in LABEL])),
    "label words": ("label", pa.array(["yes" if y else "no" for y in LABEL])),
    **{f"f0 {kind}": ("f0", pa.array(AMOUNT, kind)) for kind in ("float32", "float64")},
}


def reference(**changes: Any) -> pa.Table:
    columns = {"src": SRC, "dst": DST, "t": TIMES, "label": LABEL, "f0": AMOUNT}
    return pa.table(columns | changes)


def expected(src: list[Any] = SRC, dst: list[Any] = DST) -> EventStream:
    features = np.array(AMOUNT, np.float32)[:, None]
    return EventStream.from_arrays(
        src, dst, TIMES, label=LABEL, edge_features=features, bipartite=False, origin="x"
    )


def same(found: EventStream, wanted: EventStream) -> bool:
    """Whether events, ids, labels and features are the same; times may be of another type."""
    return (
        found.ids.labels.tolist() == wanted.ids.labels.tolist()
        and all(np.array_equal(getattr(found, x), getattr(wanted, x)) for x in ("src", "dst", "t", "label"))
        and np.array_equal(found.edge_features, wanted.edge_features)
    )


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("container", CONTAINERS)
def test_every_type_in_every_container(container: str, column: str, tmp_path: Path) -> None:
    name, values = COLUMNS[column]
    source = CONTAINERS[container](reference(**{name: values}), tmp_path)
    assert same(read_events(source, bipartite=False), expected())


@pytest.mark.parametrize("kind", ["string", "large_string", "categories"])
@pytest.mark.parametrize("container", CONTAINERS)
def test_text_ids_in_every_container(container: str, kind: str, tmp_path: Path) -> None:
    src, dst = [f"u{i}" for i in SRC], [f"ö {i}" for i in DST]
    ends = [pa.array(ids, "string" if kind == "categories" else kind) for ids in (src, dst)]
    ends = [one.dictionary_encode() for one in ends] if kind == "categories" else ends
    source = CONTAINERS[container](reference(src=ends[0], dst=ends[1]), tmp_path)
    assert same(read_events(source, bipartite=False), expected(src, dst))
