"""Records in JSON: what is stored under which key, and what is said of a file that does not fit."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import isnan, nan
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import pytest

from contig.errors import DiskError, RunError
from contig.schema import Record, decode, encode, inlined, read_versioned, stored_as

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, eq=False)
class Inner(Record):
    share: float = nan
    at_five: float = stored_as("share@5", nan)
    count: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Pair(Record, Generic[T]):
    left: T
    right: T


@dataclass(frozen=True, kw_only=True, eq=False)
class Outer(Pair[Inner]):
    kind: Literal["a", "b"]
    spans: dict[str, tuple[float, float] | None]
    rates: tuple[float, ...]
    loss: float
    inner: Inner = inlined()
    note: str | None = None


OUTER = Outer(
    left=Inner(share=0.5, at_five=0.25, count=3),
    right=Inner(count=0),
    kind="b",
    spans={"x": (1, 2.5), "y": None},
    rates=(0.5, 0.75),
    loss=nan,
    inner=Inner(share=1, count=7),
)
STORED: dict[str, Any] = {
    "left": {"share": 0.5, "share@5": 0.25, "count": 3},
    "right": {"count": 0},
    "kind": "b",
    "spans": {"x": [1, 2.5], "y": None},
    "rates": [0.5, 0.75],
    "loss": None,
    "share": 1,
    "count": 7,
}


def test_what_is_stored() -> None:
    assert OUTER.as_dict() == encode(OUTER) == STORED


def test_records_survive_json() -> None:
    back = decode(Outer, json.loads(json.dumps(OUTER.as_dict())), "file")
    assert back == OUTER
    assert isnan(back.right.share)
    assert isnan(back.loss)
    assert back.spans["x"] == (1, 2.5)
    assert decode(Pair[Inner], STORED, "file").left == OUTER.left  # what it does not know is ignored


def test_equality_is_that_of_type_and_values() -> None:
    assert Inner(count=3) == Inner(share=nan, count=3)
    assert Inner(count=3) != Inner(share=0.5, count=3)
    assert Inner(count=3) != {"count": 3}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"left": {"share": 1}}, "the field left.count is missing"),
        ({"count": "many"}, "the field count must be an integer, not 'many'"),
        ({"count": True}, "the field count must be an integer, not True"),
        ({"right": []}, "the field right must be an object, not a list"),
        ({"kind": "c"}, "the field kind must be 'a' or 'b', not 'c'"),
        ({"rates": [0.5, "x"]}, r"the field rates\[1\] must be a number, not 'x'"),
        ({"rates": 0.5}, "the field rates must be a list, not 0.5"),
        ({"spans": {"x": [1]}}, r"the field spans\.x must be a list of 2 values, not a list"),
        ({"note": 5}, "the field note must be text, not 5"),
    ],
)
def test_errors_name_the_file_and_the_field(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RunError, match=rf"^run/metrics.json: {message}\. Delete it\.$"):
        decode(Outer, {**STORED, **changes}, "run/metrics.json", "Delete it.")


def read(path: Path, content: str) -> dict[str, Any]:
    path.write_text(content)
    return read_versioned(path, 3, lambda old: {**old, "upgraded": True}, "Delete it.")


def test_versions(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    assert read(path, '{"schema": 3, "a": 1}') == {"schema": 3, "a": 1}
    assert read(path, '{"a": 1}') == {"a": 1, "upgraded": True}
    assert read(path, '{"schema": 2, "a": 1}') == {"schema": 2, "a": 1, "upgraded": True}
    for content, message in (
        ('{"schema": 4}', "schema is 4, but this version of contig reads up to 3. Upgrade contig"),
        ("{", r"cannot be read.* the file is damaged\. Delete it\.$"),
        ("[]", r"must hold a JSON object, not a list; the file is damaged\. Delete it\.$"),
    ):
        with pytest.raises(RunError, match=rf"x\.json.*{message}"):
            read(path, content)
    with pytest.raises(DiskError, match=r"none\.json: No such file"):
        read_versioned(tmp_path / "none.json", 3, lambda old: old)
