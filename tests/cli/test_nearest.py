"""``contig nearest``."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.commands import START, Answer, date, seconds

from contig.runs.run import Run

pytestmark = pytest.mark.usefixtures("fast_training", "here")


def test_nearest(run: Path) -> None:
    when = START + 500_000.5
    expected = Run.open(run).nearest("n9", k=3, at=when, side="dst")
    command = ("nearest", run, "--node", "n9", "--side", "dst", "--at", when, "-k", 3)
    found = Answer(*command, "--json").json
    assert [(one["node"], one["similarity"]) for one in found["nearest"]] == list(map(tuple, expected))
    assert (found["node"], found["at"], found["last_event"]) == ("n9", when, expected.last_event)
    answer = Answer(*command)
    for rank, one in enumerate(expected, 1):
        assert f"{rank} {one.node} {one.similarity:.5f}" in answer.words
    assert f"at {date(when)}, from the events up to {date(expected.last_event)}" in answer.err
    assert Answer(*command, "--out", "n.parquet").code == 0
    table = pq.read_table("n.parquet").to_pydict()
    assert table["nearest"] == [one.node for one in expected]
    assert table["rank"] == [1, 2, 3]
    assert (set(seconds(table["at"])), set(seconds(table["last_event"]))) == ({when}, {expected.last_event})


def test_an_unknown_node_is_an_error(run: Path) -> None:
    answer = Answer("nearest", run, "--node", "nobody")
    assert answer.code == 2
    assert "nobody" in answer.err
