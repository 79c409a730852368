"""Numbers, categories and missing values are read alike from every kind of file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from support.event_files import rejection

from contig.data.columns import Column, row_place
from contig.data.encoding import encoded
from contig.data.events import EventStream
from contig.data.feature_columns import FeatureColumn, raw_features
from contig.data.read_options import ReadOptions
from contig.data.readers import read_events
from contig.data.splits import chronological_split
from contig.errors import DataError

NAN = float("nan")
CSV = """who,what,when,price,kind,express,spare
ann,tea,3,2.5,hot,true,7
bob,tea,5,,hot,false,7
ann,ice,9, 1e3 ,cold,,7
cid,tea,9,-4,NA,true,7
"""
EXPECTED = [[2.5, 1, 1], [NAN, 1, 0], [1000, 0, NAN], [-4, NAN, 1]]
COLUMNS = {"src": "who", "dst": "what", "t": "when"}
NAMED = ("price", "kind", "express")


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "visits.csv"
    path.write_text(CSV)
    return path


def test_text_files_hold_numbers_categories_and_missing_values(csv: Path) -> None:
    stream = read_events(csv, **COLUMNS, features=NAMED)
    np.testing.assert_array_equal(stream.edge_features, np.array(EXPECTED, dtype=np.float32))
    kinds = [FeatureColumn("price"), FeatureColumn("kind", ("cold", "hot"))]
    assert stream.edge_columns == (*kinds, FeatureColumn("express", ("false", "true")))


def test_tables_hold_the_same(tmp_path: Path) -> None:
    table = pa.table(
        {
            "who": ["ann", "bob", "ann", "cid"],
            "what": ["tea", "tea", "ice", "tea"],
            "when": [3, 5, 9, 9],
            "price": pa.array([2.5, None, 1000, -4]),
            "kind": pa.array(["hot", "hot", "cold", None]).dictionary_encode(),
            "express": pa.array([True, False, None, True]),
        }
    )
    path = tmp_path / "visits.parquet"
    pq.write_table(table, path)
    for source in (table, path):
        stream = read_events(source, **COLUMNS, features=NAMED)
        np.testing.assert_array_equal(stream.edge_features, np.array(EXPECTED, dtype=np.float32))
        assert stream.edge_columns[2] == FeatureColumn("express")  # booleans are numbers


def test_all_means_every_other_column(csv: Path) -> None:
    stream = read_events(csv, **COLUMNS, features=True)
    assert [column.name for column in stream.edge_columns] == [*NAMED, "spare"]


def test_unused_columns_are_named_with_the_option_that_uses_them(csv: Path, caplog) -> None:
    stream = read_events(csv, **COLUMNS)
    assert stream.edge_features is None
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "--features price,kind,express,spare" in record.message
    assert "features=['price', 'kind', 'express', 'spare']" in record.message
    caplog.clear()
    read_events(csv, **COLUMNS, features=False)
    assert all(record.levelname != "WARNING" for record in caplog.records)


def test_raw_features_must_be_complete_numbers(csv: Path) -> None:
    assert "the feature is missing" in rejection(csv, **COLUMNS, features=["price"], preprocess=False)
    assert "is not a number" in rejection(csv, **COLUMNS, features=["kind"], preprocess=False)
    stream = read_events(csv, **COLUMNS, features=["spare"], preprocess=False)
    assert stream.edge_columns == ()
    assert stream.edge_features.tolist() == [[7], [7], [7], [7]]


def test_one_wrong_number_is_not_a_category(tmp_path: Path) -> None:
    rows = [f"u{i},v,{i},{i / 2 if i != 13 else 'l3.5'}\n" for i in range(30)]
    path = tmp_path / "typo.csv"
    path.write_text("src,dst,t,price\n" + "".join(rows))
    message = rejection(path, features=["price"])
    assert "line 15, column 'price': 'l3.5' is not a number, but most values" in message


def read_as(values: pa.Array, kind: str) -> tuple[list, tuple[str, ...] | None]:
    column = Column("x", pa.chunked_array([values]), "new.csv", row_place("new.csv"))
    found = raw_features([column], {"x": kind})
    return [None if np.isnan(x) else float(x) for x in found.values[:, 0]], found.columns[0].categories


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (pa.array(["01", "1", None, "NA"]), ("01", "1")),
        (pa.array([3, 10, None]), ("10", "3")),
        (pa.array([3.0, 2.5, None]), ("2.5", "3")),
        (pa.array([True, False, None]), ("false", "true")),
        (pa.array(["2024-01-02", "2024-01-03", ""]), ("2024-01-02", "2024-01-03")),
    ],
)
def test_a_column_of_categories_is_text_whatever_it_looks_like(values: pa.Array, names) -> None:
    found, categories = read_as(values, "category")
    assert categories == names
    written = [str(value).lower().removesuffix(".0") for value in values.to_pylist()[:2]]
    assert [names[int(code)] for code in found[:2]] == written
    assert set(found[2:]) == {None}


def test_a_column_of_numbers_rejects_text_by_row() -> None:
    assert read_as(pa.array([" 2 ", "", "1e2"]), "number") == ([2, None, 100], None)
    assert read_as(pa.array(["True", None, "false"]), "number") == ([1, None, 0], None)
    assert read_as(pa.array([None, ""]), "number") == ([None, None], None)
    with pytest.raises(DataError, match=r"row 1 .*column 'x': 'red' is not a number, but this column held"):
        read_as(pa.array(["2", "red", "blue"]), "number")


def test_a_column_without_any_value_is_read() -> None:
    table = pa.table({"src": [1, 2], "dst": [3, 4], "t": [0, 1], "note": pa.nulls(2)})
    stream = read_events(table, features=["note"])
    assert np.isnan(stream.edge_features).all()
    assert stream.edge_columns == (FeatureColumn("note"),)
    assert read_as(pa.nulls(2), "category") == ([None, None], ())


EMPTY = """src,dst,t,price,note,kind,when
1,7,0,,NA,,5
2,8,1,, null,hot,
1,8,3,,,,
2,7,4,,nan,,
"""
LOST = "is missing, so that the model sees a constant and learns nothing from it. Fill it in, or leave it out"


def missing_notices(stream: EventStream) -> list[str]:
    return [notice for notice in stream.notices if "so that the model sees a constant" in notice]


@pytest.mark.parametrize("features", [["price", "kind", "note"], ["kind", "when"], ["price", "when"], True])
def test_columns_without_any_value_are_named(
    features: list[str] | bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "empty.csv"
    path.write_text(EMPTY)
    given = ["price", "note", "kind", "when"] if features is True else features
    expected = [name for name in given if name in ("price", "note")]
    tables = (path, pyarrow.csv.read_csv(path))
    for source, origin in zip(tables, (str(path), "pyarrow Table"), strict=True):
        caplog.clear()
        stream = read_events(source, features=features)
        columns = "column" if len(expected) == 1 else "columns"
        names = ", ".join(map(repr, expected))
        warning = f"{origin}: every value of the feature {columns} {names} {LOST} of --features (features=)."
        assert missing_notices(stream) == ([warning] if expected else [])
        found = [record.levelname for record in caplog.records if record.getMessage() == warning]
        assert found == ["WARNING"] * bool(expected)
        assert missing_notices(read_events(source, features=False)) == []
        assert missing_notices(read_events(source, features=features, usual=ReadOptions())) == []


def test_columns_of_nodes_without_any_value_are_named(tmp_path: Path) -> None:
    """Also where only a node without events has a value."""
    (tmp_path / "events.csv").write_text("src,dst,t\n1,7,0\n2,8,1\n")
    (tmp_path / "nodes.csv").write_text("id,age,city,size\n1,,,5\n2,,,\n7,,,\n9,30,rome,4\n")
    stream = read_events(tmp_path / "events.csv", node_features=tmp_path / "nodes.csv")
    (warning,) = missing_notices(stream)
    assert warning.startswith(
        f"{tmp_path / 'nodes.csv'}: every value of the feature columns 'age', 'city' is"
    )
    assert warning.endswith("Fill it in, or remove it from the file.")


def test_a_column_without_any_value_is_a_constant_to_models() -> None:
    """What the warning says, for the events of the training and for later ones with a value."""
    table = {"src": [1, 2] * 20, "dst": [3, 4] * 20, "t": list(range(40)), "note": [None] * 40}
    stream = read_events(pa.table(table), features=["note"])
    ready, plans = encoded(stream, chronological_split(stream))
    assert np.ptp(ready.edge_features, axis=0).tolist() == [0, 0]
    assert plans is not None
    assert (
        plans.events.encode_matrix(np.array([[5], [-3], [1e9]], np.float32), "later")[:, 0].tolist()
        == [0] * 3
    )


def test_an_unused_column_without_any_value_is_not_suggested(tmp_path: Path) -> None:
    path = tmp_path / "empty.csv"
    path.write_text("src,dst,t,price,kind\n" + "".join(f"{i % 4},{i % 3},{i},,{i % 2}\n" for i in range(30)))
    for source in (path, pyarrow.csv.read_csv(path)):
        (notice,) = read_events(source).notices
        assert "ignored 2 columns: 'price', 'kind'" in notice
        assert "--features kind (" in notice


def test_what_is_beyond_float32_is_refused() -> None:
    table = pa.table({"src": [1, 2], "dst": [3, 4], "t": [0, 1], "size": [1.0, 1e300]})
    assert "1e+300 is not a finite float32" in rejection(table, features=["size"])


def test_vectors_are_taken_as_they_are_unless_asked() -> None:
    table = pa.table({"src": [1, 2], "dst": [3, 4], "t": [0, 1], "features": [[1.0, 2.0], [3.0, 4.0]]})
    assert read_events(table).edge_columns == ()
    assert read_events(table, preprocess=True).edge_columns == (FeatureColumn("f0"), FeatureColumn("f1"))


def test_exported_columns_are_those_of_the_file(csv: Path) -> None:
    stream = read_events(csv, **COLUMNS, features=NAMED)
    table = stream.to_arrow()
    assert table["kind"].to_pylist() == ["hot", "hot", "cold", None]
    assert table["price"].to_pylist() == [2.5, None, 1000, -4]
    assert read_events(table, features=NAMED, bipartite=True).equals(stream)


def test_fingerprints_know_categories_and_whether_features_are_encoded(csv: Path, tmp_path: Path) -> None:
    raw = read_events(csv, **COLUMNS, features=["spare"])
    assert (
        raw.fingerprint() != read_events(csv, **COLUMNS, features=["spare"], preprocess=False).fingerprint()
    )
    other = tmp_path / "other.csv"
    other.write_text(CSV.replace("hot", "warm"))
    one, two = (read_events(path, **COLUMNS, features=["kind"]) for path in (csv, other))
    assert one.fingerprint() != two.fingerprint()
    assert not one.equals(two)
