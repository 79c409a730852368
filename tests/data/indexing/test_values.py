"""Which values and types an index takes from Parquet files, against reading them into memory."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import contig
from contig.data.index_folder import is_index
from contig.data.read_options import ReadOptions
from contig.errors import DataError
from contig.history.building import build_index

duckdb = pytest.importorskip("duckdb", reason="an index needs the extra index")


def write_two(folder: Path, first: dict[str, Any], second: dict[str, Any]) -> Path:
    """Write two files of a few events, some columns of which differ in their types."""
    columns = {"src": [1, 2, 3], "dst": [7, 8, 9], "t": [10, 30, 50], "f0": [1, 2, 3]}
    (folder / "two").mkdir()
    for name, changes in (("a", first), ("b", second)):
        pq.write_table(pa.table(columns | changes), folder / "two" / f"{name}.parquet")
    return folder / "two"


BYTES = pa.array([1, 2, 3], pa.int8())
WIDER = [
    ({"t": [12.4, 12.6, 99.0]}, {}),
    ({"f0": [0.5, 0.25, 0.0]}, {}),
    ({"src": [1_000_000, 2, 3]}, {"src": BYTES}),
    ({"src": ["a", "b", "c"]}, {"src": pa.array(["x", "y", "x"]).dictionary_encode()}),
]


@pytest.mark.parametrize("types", WIDER)
def test_types_of_later_files_may_be_narrower(tmp_path: Path, types: tuple[dict, dict]) -> None:
    files = write_two(tmp_path, *types)
    build_index(files, tmp_path / "index")
    assert contig.read_events(files).equals(contig.read_events(tmp_path / "index"))


LETTERS = pa.array([b"a", b"b", b"c"])
DAYS = pa.array([1, 2, 3], pa.timestamp("us"))
OTHER = [
    *zip(
        (pair[::-1] for pair in WIDER[:3]),
        (
            r"'t' holds fractions, but integers in",
            r"'f0' holds fractions, but integers in",
            r"'src' holds integers \(int64\), but integers \(int8\) in",
        ),
        strict=True,
    ),
    (({}, {"src": ["1", "02", "x"]}), "'src' holds text, but integers in"),
    (({"src": ["1", "02", "x"]}, {}), "'src' holds integers, but text in"),
    (({"src": ["a", "b", "c"]}, {"src": LETTERS}), "'src' holds bytes, but text in"),
    (
        ({"t": DAYS}, {"t": DAYS.cast(pa.timestamp("us", "UTC"))}),
        r"'t' holds dates \(timestamp\[us, tz=UTC\]\), but",
    ),
    (({"msg": [[1]] * 3}, {"msg": [["a"]] * 3}), "'msg' holds lists of text, but lists of integers in"),
]


@pytest.mark.parametrize(("types", "problem"), OTHER)
def test_other_types_in_later_files_are_refused(
    tmp_path: Path, types: tuple[dict, dict], problem: str
) -> None:
    """Otherwise fractions were rounded and ids changed, since all files were read as the first one."""
    files = write_two(tmp_path, *types)
    with pytest.raises(DataError, match=rf"b\.parquet: column {problem} .*a\.parquet\. Give each"):
        build_index(files, tmp_path / "index")
    assert not (tmp_path / "index").exists() or not any((tmp_path / "index").glob("*.npy"))


def test_columns_have_the_same_names_in_all_files_as_in_memory(tmp_path: Path) -> None:
    files = write_two(tmp_path, {}, {})
    pq.write_table(pa.table({"Src": [1], "dst": [2], "t": [3], "f0": [4]}), files / "b.parquet")
    for read in (contig.read_events, lambda given: build_index(given, tmp_path / "index")):
        with pytest.raises(DataError, match="there is no column 'src' as in the folder's first file"):
            read(files)


PLACE = r"0.parquet, row 1 \(counted from 0\), column"
FEATURE = "a feature is missing or not a finite float32; scale very large features and fill missing"
BAD = [
    ("src", [3, None, 5], "'src': the id is missing"),
    ("src", pa.array([1, 2**63, 2], pa.uint64()), "'src': 9223372036854775808 is larger than a signed"),
    ("dst", ["a", "", "b"], "'dst': '' is not an id: it is empty"),
    ("dst", ["a", "b\0", "b"], r"'dst': 'b\\x00' is not an id; .* without NUL"),
    ("t", [1.0, float("nan"), 2.0], r"'t': nan is not a time; times are finite numbers or dates\. Fix or"),
    ("t", pa.array([1000, 1001, 1], pa.timestamp("ns")), r"'t': 1970-01-01 00:00:00\.000001001 is finer"),
    ("t", pa.array([1, 2**64 - 1, 2], pa.uint64()), "'t': 18446744073709551615 is larger than a signed"),
    ("label", [0.0, 0.5, 1.0], r"'label': 0\.5 is not a whole number"),
    ("label", ["0", "0.5", "1"], r"'label': '0\.5' is not a whole number; labels are class numbers"),
    ("label", ["0", "spam", "1"], "'label': 'spam' is not a whole number; .* Convert the column first"),
    ("label", ["0", "1_000", "1"], "'label': '1_000' is not a whole number; .*, or yes and no"),
    (
        "label",
        pa.array([0, Decimal("0.5"), 1], pa.decimal128(3, 1)),
        r"'label': 0\.5 is not a whole number",
    ),
    ("label", pa.array([0, 2**63, 1], pa.decimal128(20, 0)), "'label': 9223372036854775808 is larger"),
    ("label", pa.array([1, 2**63, 2], pa.uint64()), "'label': 9223372036854775808 is larger"),
    ("features", [[1.0], [float("inf")], [2.0]], f"'features': {FEATURE}"),
    ("features", [[1.0], [1e300], [2.0]], f"'features': {FEATURE}"),
    ("features", [[1.0], [1.0, 2.0], [2.0]], "'features': has 2 features, but the first event has 1; all"),
    ("f0", [1.0, 1e300, 2.0], f"'f0': {FEATURE}"),
]


@pytest.mark.parametrize(("name", "values", "message"), BAD)
def test_bad_values_are_named(tmp_path: Path, name: str, values: Any, message: str) -> None:
    columns = {"src": [1, 2, 3], "dst": [4, 5, 6], "t": [7, 8, 9], "label": [0, 1, 0]}
    pq.write_table(pa.table({**columns, name: values}), tmp_path / "0.parquet")
    with pytest.raises(DataError, match=rf"{PLACE} {message}"):
        build_index(tmp_path / "0.parquet", tmp_path / "index")
    assert not is_index(tmp_path / "index")


TYPES = [
    ("src", LETTERS, "bytes; ids must be integers or text. Convert the column first."),
    ("src", DAYS, "dates; ids must be integers or text."),
    ("dst", DAYS.cast(pa.int64()).cast(pa.decimal128(38, 2)), "decimal numbers; ids must be"),
    ("t", ["1/31/2024", "2/1/2024", "2/2/2024"], "text; times must be numbers or dates. Convert"),
    ("t", [True, False, True], "true/false values; times must be numbers or dates."),
    ("t", pa.array([1, 2, 3], pa.time32("s")), "times of day; times must be numbers or dates."),
    ("label", DAYS, "dates; labels must be whole numbers. Convert the column first."),
    ("features", [["a"], ["b"], ["c"]], "lists of text; features must be numbers, or lists of numbers."),
    ("f0", ["a", "b", "c"], "text; features must be numbers"),
    ("f0", [{"a": 1}] * 3, "groups of columns; features must be numbers"),
]


@pytest.mark.parametrize(("name", "values", "problem"), TYPES)
def test_types_are_named_in_the_words_of_users(tmp_path: Path, name: str, values: Any, problem: str) -> None:
    columns = {"src": [1, 2, 3], "dst": [4, 5, 6], "t": [7, 8, 9]}
    pq.write_table(pa.table({**columns, name: values}), tmp_path / "0.parquet")
    with pytest.raises(DataError, match=rf"0\.parquet: column '{name}' holds {problem}") as error:
        build_index(tmp_path / "0.parquet", tmp_path / "index")
    assert "--date-format" not in str(error.value)


def test_the_advice_for_dates_written_as_text_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    days = ["2024-01-31", "2024-02-29", "2024-02-01"]
    pq.write_table(pa.table({"src": [1, 2, 3], "dst": [4, 5, 6], "Time": days}), "a.parquet")
    with pytest.raises(DataError, match="column 'Time' holds text") as error:
        build_index("a.parquet", "index")
    duckdb.sql(str(error.value).partition("DuckDB: ")[2].rstrip("."))
    assert contig.read_events(build_index("b.parquet", "index")).equals(contig.read_events("a.parquet"))


LABELS = [
    ["1", " 0", ""],
    ["1.0", None, "3"],
    ["yes", " No ", None],
    ["T", "false", "1"],
    [True, None, False],
    [None] * 3,
    pa.array([1, None, 0], pa.decimal128(38, 0)),
    pa.array([Decimal("1.00"), Decimal("12.00"), None], pa.decimal128(10, 2)),
    pa.array([1, None, 0], pa.decimal128(38, 37)),
    pa.array([-(2**63), 2**63 - 1, 0], pa.decimal128(19, 0)),
    ["\t", "yes\t", "\n0 "],
    [float("nan"), 1.0, 0.0],
    pa.array([2.0, float("nan"), None], pa.float32()),
    pa.array(np.array([2, np.nan, 1], np.float16)),
]
if hasattr(pa, "decimal32"):
    LABELS.append(pa.array([3, None, 0], pa.decimal32(4, 0)))


@pytest.mark.parametrize("labels", LABELS)
def test_labels_are_read_as_in_memory(tmp_path: Path, labels: Any) -> None:
    columns = {"src": [1, 2, 3], "dst": [4, 5, 6], "t": [7, 8, 9], "label": labels}
    pq.write_table(pa.table(columns), tmp_path / "0.parquet")
    build_index(tmp_path / "0.parquet", tmp_path / "index")
    assert contig.read_events(tmp_path / "index").equals(contig.read_events(tmp_path / "0.parquet"))


def test_columns_that_are_not_used_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    columns = {"src": [1, 2], "dst": [3, 4], "t": [5, 6], "price": [0.5, 1.5], "f0": [1.0, 2.0]}
    pq.write_table(pa.table(columns), tmp_path / "0.parquet")
    caplog.set_level("INFO", "contig")
    build_index(tmp_path / "0.parquet", tmp_path / "with")
    build_index(tmp_path / "0.parquet", tmp_path / "without", reading=ReadOptions(features=False))
    pq.write_table(pa.table(columns).drop_columns("f0"), tmp_path / "1.parquet")
    build_index(tmp_path / "1.parquet", tmp_path / "none")
    said = [text for record in caplog.records if "ignored" in (text := record.getMessage())]
    assert [text.partition(": ")[2] for text in said] == [
        "ignored 1 column: 'price'.",
        "ignored 2 columns: 'price', 'f0'.",
        "ignored 1 column: 'price'. Features of an index are columns of numbers f0, f1, ..., or one of lists "
        "of numbers.",
    ]
