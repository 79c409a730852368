"""Ctrl-C ends the work of DuckDB, also where an exception would get lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from contig.data.indexing.database import Database, connected

pytest.importorskip("duckdb", reason="an index needs the extra index")
pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="signals as Unix has them"),
    pytest.mark.usefixtures("usual_ctrl_c"),
]

MEMORY = 64 << 20
WITHOUT_END = "SELECT sum(one.i * other.i) FROM range(100000000) one(i), range(100000000) other(i)"


def ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


class Pressed:
    """A connection during whose queries somebody presses Ctrl-C; what that raises is lost."""

    def __init__(self, connection: Any) -> None:
        self.connection, self.interrupted = connection, 0

    def execute(self, query: str) -> Any:
        with suppress(BaseException):
            ctrl_c()
        return self.connection.execute(query)

    def interrupt(self) -> None:
        self.interrupted += 1

    def close(self) -> None:
        self.connection.close()


def test_ctrl_c_that_is_pressed_within_an_import_is_not_lost(tmp_path: Path) -> None:
    """An exception there may be taken for a sign that a module is not installed."""
    pressed = []

    def work() -> None:
        with connected(tmp_path, MEMORY) as database:
            pressed.append(Pressed(database._connection))
            database._connection = pressed[0]  # type: ignore[assignment]
            database.rows("SELECT 1")

    with pytest.raises(KeyboardInterrupt):
        work()


def test_ctrl_c_between_two_queries_ends_the_work(tmp_path: Path) -> None:
    done = []

    def work() -> None:
        with connected(tmp_path, MEMORY) as database:
            with suppress(BaseException):
                ctrl_c()
            done.append("noted")
            database.rows("SELECT 1")
            done.append("not reached")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["noted"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_ends_a_loop_over_many_files(tmp_path: Path) -> None:
    done = []

    def work() -> None:
        with connected(tmp_path, MEMORY) as database:
            for file in database.each(range(5)):
                done.append(file)
                if file == 2:
                    with suppress(BaseException):
                        ctrl_c()

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == [0, 1, 2]


def test_a_second_ctrl_c_is_raised_at_once(tmp_path: Path) -> None:
    done = []

    def work() -> None:
        with connected(tmp_path, MEMORY):
            ctrl_c()
            done.append("noted")
            ctrl_c()
            done.append("not reached")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["noted"]


INTERRUPTED = """
import signal, sys
from pathlib import Path
from contig.data.indexing.database import connected
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have started us with it ignored
with connected(Path(sys.argv[1]), 64 << 20) as database:
    print("begun", flush=True)
    database.rows(sys.argv[2])
"""


def test_an_interruption_that_is_forgotten_is_repeated(tmp_path: Path) -> None:
    """DuckDB forgets one that comes just before a query begins."""
    made: list[Forgetful] = []

    class Forgetful(Pressed):
        def __init__(self, database: Database) -> None:
            super().__init__(database._connection)
            self.database, self.ended = database, Event()
            self.alive_at_close = True

        def execute(self, query: str) -> Any:
            ctrl_c()
            self.ended.wait(timeout=10)

        def interrupt(self) -> None:
            super().interrupt()
            if self.interrupted == 3:
                self.ended.set()

        def close(self) -> None:
            self.alive_at_close = self.database._interrupter.is_alive()
            super().close()

    def work() -> None:
        with connected(tmp_path, MEMORY) as database:
            made.append(Forgetful(database))
            database._connection = made[0]  # type: ignore[assignment]
            database.rows("SELECT 1")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert made[0].ended.is_set()
    assert not made[0].alive_at_close


def test_ctrl_c_ends_a_query_that_is_running(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path), WITHOUT_END],
        stdout=subprocess.PIPE,
        text=True,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        try:
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert "KeyboardInterrupt" in errors
    assert "Error" not in errors


def test_another_meaning_of_ctrl_c_is_kept(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with connected(tmp_path, MEMORY) as database:
            ctrl_c()
            assert database.row("SELECT 1") == (1,)
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_results_and_errors_of_the_work_are_passed_on(tmp_path: Path) -> None:
    import duckdb

    from contig.errors import DataError

    with connected(tmp_path, MEMORY) as database:
        assert database.rows("SELECT * FROM range(3)") == [(0,), (1,), (2,)]
        sizes = [batch.num_rows for batch in database.batches("SELECT * FROM range(300000)")]
        assert sum(sizes) == 300_000
        assert len(sizes) > 1
        with pytest.raises(duckdb.ParserException, match="SELEKT"):
            database.rows("SELEKT 1")
    with pytest.raises(DataError, match="The files cannot be read"), connected(tmp_path, MEMORY) as database:
        database.rows("SELECT * FROM nowhere")
