"""``contig update``."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv, feather
from support.commands import COLUMNS, START, Answer

from contig.runs.run import Run

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


def test_a_file_without_rows_is_accepted_if_it_has_the_columns(run: Path, here: Path) -> None:
    shutil.copytree(run, here / "copy")
    before = {path: path.read_bytes() for path in (here / "copy").rglob("*") if path.is_file()}
    (here / "june;7.csv").write_text("who,page,when\n")
    none = pa.table({"who": pa.array([], pa.string()), "page": pa.array([], pa.string()), "when": []})
    pq.write_table(none, here / "quiet.parquet")
    for name in ("june;7.csv", "quiet.parquet"):
        answer = Answer("update", "copy", name, *COLUMNS)
        assert answer.code == 0, answer.err
        assert f"{name}: there are no events; the run is unchanged." in answer.err
        assert "copy observed 0 events and 0 new nodes; it knows 280 events" in answer.err
    columns = {"src": "who", "dst": "page", "t": "when"}
    assert Run.open(here / "copy", "cpu").observe(none, **columns) == 0
    assert {path: path.read_bytes() for path in (here / "copy").rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("text", "options", "problem"),
    [
        ("who,when\n", COLUMNS, "there is no column 'page'"),
        ("", COLUMNS, "the file is empty"),
        ("wrong,columns,of,a,file\n", ["--format", "jodie"], "there are no events"),
        ("# a comment\n", ["--format", "snap"], "there are no events"),
    ],
)
def test_a_file_without_rows_and_columns_is_refused(
    text: str, options: list[str], problem: str, run: Path, here: Path
) -> None:
    (here / "new.csv").write_text(text)
    assert problem in Answer("update", run, "new.csv", *options).refusal


@pytest.mark.parametrize("command", [("update",), ("evaluate", "--data"), ("refit", "--out", "new", "--on")])
def test_times_in_another_unit_are_refused(command: tuple[str, ...], run: Path, here: Path) -> None:
    (here / "new.csv").write_text(f"who,page,when\nn3,n9,{START + 900_000}\nn3,n9,{START}000\n")
    refusal = Answer(command[0], run, *command[1:], "new.csv", *COLUMNS).refusal
    assert f"new.csv, line 3: t={START}000 looks like milliseconds since 1970, but the times of" in refusal
    assert "Divide by 1,000." in refusal


@pytest.fixture
def orders(here: Path) -> Path:
    """A run on orders with dates, whose users and products have ids of their own."""
    start = datetime(2024, 5, 1, tzinfo=UTC)
    rows = [f"u{i % 20},p{i % 50},{start + timedelta(hours=i):%Y-%m-%d %H:%M}" for i in range(200)]
    (here / "orders.csv").write_text("\n".join(["who,page,when", *rows]))
    assert Answer("train", "orders.csv", *COLUMNS, "--model", "recency", "--out", "orders").code == 0
    return here / "orders"


@pytest.mark.parametrize("command", [("update",), ("evaluate", "--data"), ("score", "--out", "scores.csv")])
def test_swapped_columns_are_refused(command: tuple[str, ...], orders: Path, here: Path) -> None:
    (here / "new.csv").write_text("who,page,when\nzoe,p1,2024-06-01\np2,u3,2024-06-02\np4,u5,2024-06-02\n")
    refusal = Answer(command[0], orders, *command[1:], "new.csv").refusal
    assert "new.csv, line 3: node 'p2' is a destination in this stream, but a source here" in refusal
    assert "(2 of 3 rows like this). Are the columns swapped?" in refusal


def test_an_id_of_the_other_side_may_be_a_new_node(orders: Path, here: Path) -> None:
    (here / "new.csv").write_text("who,page,when\np1,p2,2024-06-01\n")
    answer = Answer("update", orders, "new.csv")
    assert answer.code == 0
    assert "line 2: node 'p1' is a destination in this stream, but a source here. Are the" in answer.err
    assert "1 new node" in answer.err


def test_swapped_columns_are_refused_after_an_id_of_the_other_side(orders: Path, here: Path) -> None:
    (here / "one.csv").write_text("who,page,when\np1,p2,2024-06-01\n")
    assert Answer("update", orders, "one.csv").code == 0
    (here / "new.csv").write_text("who,page,when\np2,u3,2024-06-02\n")
    assert "Are the columns swapped?" in Answer("update", orders, "new.csv").refusal


def test_events_of_the_other_side_are_taken_among_more_of_their_own(orders: Path, here: Path) -> None:
    """All receivers of messages may have sent none so far; then ids of both sides differ by chance."""
    (here / "new.csv").write_text("who,page,when\np2,u3,2024-06-01\nu1,p1,2024-06-02\n")
    answer = Answer("update", orders, "new.csv")
    assert answer.code == 0
    assert "line 2: node 'p2' is a destination in this stream, but a source here" in answer.err


def test_ids_that_are_written_differently_are_noted(orders: Path, here: Path) -> None:
    rows = [f"{i % 20},p{i % 50},2024-06-01T{i // 4:02}:00" for i in range(60)]
    (here / "new.csv").write_text("\n".join(["who,page,when", *rows]))
    answer = Answer("update", orders, "new.csv")
    assert answer.code == 0
    assert "new.csv: none of the 20 sources is known. Ids such as '0' here, and 'u0' in the run" in answer.err
    (here / "new.csv").write_text(
        "\n".join(["who,page,when", *(f"x{row}" for row in rows), "u1,p1,2024-06-02"])
    )
    assert "is known. Ids such as" not in Answer("update", orders, "new.csv", "--late", "accept").err


def test_each_warning_is_given_once_and_only_for_events_that_are_added(orders: Path, here: Path) -> None:
    (here / "new.csv").write_text("who,page,when\np1,p2,2025-03-01\n")
    answer = Answer("update", orders, "new.csv", "--repeated", "skip")
    assert (answer.code, answer.err.count("Are the columns swapped?")) == (0, 1)
    assert answer.err.count("Is the time right?") == 1
    (here / "new.csv").write_text("who,page,when\nu1,p2,2024-06-01\nu1,p2,2025-12-01\n")
    answer = Answer("update", orders, "new.csv")
    assert "is before the last event" in answer.refusal
    assert "Is the time right?" not in answer.err


def test_a_clock_that_is_behind_refuses_no_events(orders: Path, here: Path) -> None:
    """The last event was years ago, and the time zone of the new ones is ahead of this machine's."""
    now = datetime.now(UTC)
    for ahead, code in ((timedelta(days=31), 2), (timedelta(hours=14), 0)):
        (here / "new.csv").write_text(f"who,page,when\nu3,p4,{now + ahead:%Y-%m-%dT%H:%M:%S}\n")
        assert Answer("update", orders, "new.csv").code == code


def test_dates_join_a_run_that_counts_milliseconds(here: Path) -> None:
    rows = [f"u{i % 7},p{i % 5},{START * 1000 + i * 3_600_000}" for i in range(210)]
    (here / "log.csv").write_text("\n".join(["who,page,when", *rows]))
    assert Answer("train", "log.csv", *COLUMNS, "--model", "recency", "--out", "ms").code == 0
    (here / "new.csv").write_text("who,page,when\nu3,p4,2024-06-01T00:00:00.5\n")
    assert Answer("update", "ms", "new.csv").code == 0
    found = Answer("recommend", "ms", "--node", "u3", "--json").json
    assert found["last_event"] == 1000 * int(datetime(2024, 6, 1, tzinfo=UTC).timestamp()) + 500
    assert Answer("score", "ms", "new.csv", "--out", "scores.csv").code == 0
    assert (here / "scores.csv").read_text().splitlines()[1].startswith(f'"u3","p4",{found["last_event"]},')


def test_a_long_log_does_not_make_a_distant_future_likely(here: Path) -> None:
    rows = [f"u{i % 7},p{i % 5},{1990 + i // 7}-0{1 + i % 7}-01" for i in range(210)]
    (here / "log.csv").write_text("\n".join(["who,page,when", *rows]))
    assert Answer("train", "log.csv", *COLUMNS, "--model", "recency", "--out", "long").code == 0
    (here / "new.csv").write_text("who,page,when\nu3,p4,2199-06-01\n")
    assert (
        "That is in the future. Correct the time: once it is known, events before it count as late."
        in Answer("update", "long", "new.csv").refusal
    )


def test_times_far_ahead_are_noticed_before_they_make_all_others_late(orders: Path, here: Path) -> None:
    (here / "new.csv").write_text("who,page,when\nu3,p4,2024-06-01\nu3,p4,2904-06-01\n")
    refusal = Answer("update", orders, "new.csv").refusal
    assert "line 3: t=2904-06-01T00:00:00Z is 880 years after the last event that the run knows" in refusal
    assert (
        "That is in the future. Correct the time: once it is known, events before it count as late."
        in refusal
    )
    (here / "new.csv").write_text("who,page,when\nu3,p4,2025-05-01\n")
    answer = Answer("update", orders, "new.csv")
    assert answer.code == 0
    assert "line 2: t=2025-05-01T00:00:00Z is 357 days after" in answer.err
    assert "Is the time right?" in answer.err


def test_a_run_on_dates_writes_dates_whatever_late_events_it_takes(orders: Path, here: Path) -> None:
    (here / "old.csv").write_text("who,page,when\nu3,p4,1975-06-01\n")
    assert Answer("update", orders, "old.csv", "--late", "accept").code == 0
    assert Answer("recommend", orders, "--nodes", "u3", "--out", "lists.csv").code == 0
    assert "2024-05-" in (here / "lists.csv").read_text()
    (here / "old.csv").write_text("who,page,when\nu3,p4,1970-12-01\n")  # a minute count of 2024 in seconds
    assert Answer("update", orders, "old.csv", "--late", "accept").code == 0
    (here / "hours.csv").write_text(f"who,page,when\nu3,p4,{START // 3600 + 500}\n")
    refusal = Answer("update", orders, "hours.csv", "--late", "accept").refusal
    assert "looks like hours since 1970" in refusal


def test_a_run_in_training_says_only_that(run: Path, here: Path) -> None:
    shutil.copytree(run, here / "copy")
    (here / "copy" / "serving.pt").unlink()
    (here / "new.csv").write_text("who,page,when\nn3,n9,2024-06-01\n")
    answer = Answer("update", "copy", "new.csv", *COLUMNS)
    assert "copy was not finished; continue it with 'contig resume copy'." in answer.refusal
    assert "best epoch" not in answer.err


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
