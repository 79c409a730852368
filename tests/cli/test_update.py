"""``contig update``."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyarrow import csv, feather
from support.commands import COLUMNS, START, Answer

READERS = {".csv": csv.read_csv, ".parquet": pq.read_table, ".arrow": feather.read_table}

pytestmark = pytest.mark.usefixtures("fast_training", "here")


def test_update_adds_events_that_later_commands_know(run: Path, here: Path) -> None:
    shutil.copytree(run, here / "copy")
    (here / "new.csv").write_text("who,page,when\nn3,n9,2024-06-01\nzoe,n14,2024-06-02\n")
    answer = Answer("update", "copy", "new.csv", *COLUMNS)
    assert answer.code == 0, answer.err
    assert "copy observed 2 events and 1 new node; it knows 282 events" in answer.err
    found = Answer("recommend", "copy", "--node", "zoe", "--json").json
    assert (found["cold_start"], found["last_event"]) == (False, START + 32 * 86_400)
    again = Answer("update", "copy", "new.csv", *COLUMNS).refusal
    assert "new.csv, line 2: the run already knows this event (t=2024-06-01T00:00:00Z) and the other" in again
    (here / "old.csv").write_text("who,page,when\nn3,n9,2024-06-01T12:00\n")
    old = Answer("update", "copy", "old.csv", *COLUMNS).refusal
    assert (
        "line 2: t=2024-06-01T12:00:00Z is before the last event that the run knows, at 2024-06-02T00" in old
    )


@pytest.mark.parametrize("command", [("update",), ("evaluate", "--data"), ("refit", "--out", "new", "--on")])
def test_times_in_another_unit_are_refused(command: tuple[str, ...], run: Path, here: Path) -> None:
    (here / "new.csv").write_text(f"who,page,when\nn3,n9,{START + 900_000}\nn3,n9,{START}000\n")
    refusal = Answer(command[0], run, *command[1:], "new.csv", *COLUMNS).refusal
    assert f"new.csv, line 3: t={START}000 looks like milliseconds since 1970, but the times of" in refusal
    assert "Divide by 1,000." in refusal


def test_a_repeated_file_is_accepted_on_request(run: Path, here: Path) -> None:
    shutil.copytree(run, here / "copy")
    (here / "new.csv").write_text("who,page,when\nn3,n9,2024-06-01\n")
    assert Answer("update", "copy", "new.csv", *COLUMNS).code == 0
    refused = Answer("update", "copy", "new.csv", *COLUMNS).refusal
    assert "the run already knows this event" in refused
    assert "--repeated accept" in refused
    answer = Answer("update", "copy", "new.csv", *COLUMNS, "--repeated", "accept")
    assert "it knows 282 events" in answer.err
    assert "Unknown value 'maybe'" in Answer("update", "copy", "new.csv", "--repeated", "maybe").refusal


def test_refit_learns_from_new_events(run: Path, here: Path) -> None:
    (here / "new.csv").write_text("who,page,when\nn3,n9,2024-06-01\nzoe,n14,2024-06-02\n")
    answer = Answer("refit", run, "--on", "new.csv", *COLUMNS, "--out", "new")
    assert answer.code == 0, answer.err
    assert "learned from all 282 events" in answer.words
    found = Answer("refit", run, "--on", "everything", "--epochs", 1, "--out", "all", "--json").json
    assert (found["run"], len(found["epochs"])) == ("all", 1)
