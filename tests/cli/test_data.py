from __future__ import annotations

import io
from dataclasses import fields
from pathlib import Path

import pytest
import typer
from rich.console import Console

from contig.cli import console, data
from contig.data.read_options import ReadOptions

pytestmark = pytest.mark.usefixtures("isolated")


def test_reading_options_are_parsed() -> None:
    given = [
        *(["--src", "who", "--dst", "1", "--time", "when", "--label", "3"]),
        *(["--features", "f1,7", "--format", "tsv", "--unipartite", "--data-dir", "streams"]),
        *(["--date-format", "%d.%m.%Y"]),
    ]
    seen: list[ReadOptions] = []
    app = typer.Typer()

    @app.command()
    @data.reads_events
    def show(name: str, *, reading: ReadOptions, count: int = 1) -> None:
        seen.append(reading)

    for arguments in ([], given, ["--features", "all"], ["--features", "none", "--bipartite"]):
        app(["x", *arguments], standalone_mode=False)
    columns = ReadOptions(src="who", dst=1, t="when", label=3, features=["f1", 7])
    assert seen == [
        ReadOptions(),
        columns.updated(format="tsv", date_format="%d.%m.%Y", bipartite=False, data_dir="streams"),
        ReadOptions(features=True),
        ReadOptions(features=False, bipartite=True),
    ]


def test_every_reading_option_has_a_flag() -> None:
    assert set(data.READING_OPTIONS) == {field.name for field in fields(ReadOptions)}


@pytest.mark.parametrize("terminal", [True, False])
def test_a_spinner_is_shown_on_terminals_only(
    terminal: bool, five_visits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = io.StringIO()
    watched = Console(file=screen, force_terminal=terminal, width=90)
    monkeypatch.setattr(console, "err", lambda: watched)
    data.read_stream(str(five_visits), ReadOptions())
    assert ("reading" in screen.getvalue()) is terminal
