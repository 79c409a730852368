from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from support.event_files import assert_same

from contig.data.events import EventStream
from contig.data.readers import read_events
from contig.errors import DataError


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    return path


@pytest.mark.parametrize("name", ["visits.jsonl", "visits.ndjson", "visits.log"])
def test_objects_become_events(name: str, tmp_path: Path) -> None:
    rows = [
        {"user": "ann", "item": 7, "ts": 3, "label": 1, "features": [0.5, 1]},
        {"ts": 5, "user": "2024-05-01", "item": 8, "label": 0, "features": [2.5, -1.25]},
    ]
    path = written(tmp_path / name, rows)
    stream = read_events(path)
    expected = EventStream.from_arrays(
        *(["ann", "2024-05-01"], ["7", "8"], [3, 5]),
        label=[1, 0],
        edge_features=[[0.5, 1], [2.5, -1.25]],
        bipartite=True,
    )
    assert_same(stream, expected)
    zipped = tmp_path / "z.jsonl.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    assert_same(read_events(zipped), stream)


def test_dates_and_numbers_of_every_kind(tmp_path: Path) -> None:
    dates = ["2024-05-01", "2024-05-01T00:00:05Z", "2024-05-01 00:00:06.5"]
    path = written(tmp_path / "a.jsonl", [{"src": i, "dst": i + 5, "t": t} for i, t in enumerate(dates)])
    assert read_events(path).t.tolist() == [1714521600, 1714521605, 1714521606.5]
    path = written(
        tmp_path / "b.jsonl", [{"src": 1, "dst": 2, "t": 2**60 + 1}, {"src": 1, "dst": 2, "t": 2**61}]
    )
    assert read_events(path).t.tolist() == [2**60 + 1, 2**61]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            '{"src": 1, "dst": 2, "t": 3}\n\n{"src": 1, "dst": 2, "t": null}',
            r"line 3, column 't': the time is",
        ),
        ('{"src": 1, "dst": 2, "t": 3}\n{"src": 1, "dst"', r"line 2: not JSON"),
        ('{"src": 1, "dst": 2, "t": 3}\n[1, 2, 3]', r"line 2: .* is not a JSON object"),
        ('{"src": 1, "dst": 2, "t": 3}\n{"src": "a", "dst": 2, "t": 3}', r"give every key one type"),
    ],
)
def test_a_bad_line_is_named(lines: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(lines)
    with pytest.raises(DataError, match=message):
        read_events(tmp_path / "x.jsonl")
