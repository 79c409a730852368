from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from contig.data.datasets import open_stream
from contig.data.read_options import ReadKeywords, ReadOptions
from contig.data.readers import read_events
from contig.errors import ConfigError, DataError

EVERYTHING: dict[str, Any] = {
    "src": "who",
    "dst": 1,
    "t": "when",
    "label": "mood",
    "features": ["f1", 7],
    "format": "tsv",
    "date_format": "%d.%m.%Y",
    "bipartite": False,
    "preprocess": True,
    "node_features": "nodes.csv",
    "data_dir": "streams",
}


def test_keywords_and_fields_are_the_same() -> None:
    names = [field.name for field in fields(ReadOptions)]
    assert list(ReadKeywords.__annotations__) == names
    assert list(EVERYTHING) == names


@pytest.mark.parametrize(
    "given",
    [{}, {"src": 0}, {"features": False}, {"features": []}, {"features": True}, EVERYTHING],
    ids=str,
)
def test_options_survive_json(given: dict[str, Any]) -> None:
    options = ReadOptions(**given)
    assert options.as_dict() == given
    again = ReadOptions.from_dict(json.loads(json.dumps(options.as_dict())))
    assert again == options
    assert hash(again) == hash(options)


def test_equal_options_in_other_types_are_equal() -> None:
    one = ReadOptions(features=["f1"], data_dir=Path("streams"))
    assert one == ReadOptions(features=("f1",), data_dir="streams")


def test_unknown_names_are_rejected_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"Unknown reading option 'lable'\. Did you mean 'label'"):
        ReadOptions.from_dict({"lable": "y"})
    with pytest.raises(ConfigError, match=r"features=\['f1'\]"):
        ReadOptions(features="f1")


def test_keywords_are_split_into_reading_options_and_the_rest() -> None:
    reading, rest = ReadOptions.take({"epochs": 3, "src": "who", "dim": 8, "bipartite": True})
    assert reading == ReadOptions(src="who", bipartite=True)
    assert rest == {"epochs": 3, "dim": 8}


@pytest.mark.parametrize(
    ("options", "positional"),
    [
        (ReadOptions(), False),
        (ReadOptions(src="0", features=["1"]), False),
        (ReadOptions(t=2), True),
        (ReadOptions(features=["f1", 3]), True),
        (ReadOptions(features=True), False),
    ],
)
def test_positions_mean_that_there_is_no_header(options: ReadOptions, positional: bool) -> None:
    assert options.positional is positional


def test_keywords_override_the_options_object() -> None:
    table = pa.table({"who": [1, 2], "whom": [2, 3], "t": [0, 1], "later": [5, 6]})
    reading = ReadOptions(src="who", dst="whom", t="later")
    for read in (read_events, open_stream):
        assert read(table, reading).t.tolist() == [5, 6]
        assert read(table, reading, t="t").t.tolist() == [0, 1]


@pytest.mark.parametrize("read", [read_events, open_stream])
def test_features_may_be_required_or_left_out_of_anything(read: Any, tmp_path: Path) -> None:
    table = pa.table({"src": [1], "dst": [2], "t": [0], "f1": [0.5]})
    (tmp_path / "events.csv").write_text("src,dst,t,f1\n1,2,0,0.5\n")
    for source in (table, tmp_path / "events.csv"):
        assert read(source, features=True).edge_width == 1
        assert read(source, features=False).edge_width == 0
    with pytest.raises(DataError, match="pyarrow Table has no edge features"):
        read(table.drop_columns("f1"), features=True)
