from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
from dataclasses import fields
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from matplotlib.image import imread
from rich.console import Console
from support.commands import Answer

from contig import __version__, plots, registry
from contig.cli import console, data
from contig.data.catalogue import DATASETS, Dataset, register_dataset
from contig.data.events import EventStream
from contig.data.read_options import ReadOptions
from contig.data.summary import summarise

SRC = ["ann", "bob", "ann", "eve", "bob"]
DST = ["page1", "page2", "page2", "page1", "page2"]
T = [3, 10, 10, 21, 40]


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty working directory, no data directory, an empty cache, no network, a wide terminal."""
    monkeypatch.delenv("CONTIG_DATA", raising=False)
    monkeypatch.delenv("CONTIG_DEBUG", raising=False)
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("CONTIG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "100")
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def visits(bare: Path) -> Path:
    """Five events in time order, with a column that is not used."""
    table = {"src": SRC, "dst": DST, "t": T, "label": [0, 0, 1, 0, 0], "f1": [1.0] * 5, "mood": ["ok"] * 5}
    pq.write_table(pa.table(table), bare / "visits.parquet")
    return bare / "visits.parquet"


def program(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "contig", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=os.environ | environment,
    )


# --- inspect -------------------------------------------------------------------------------------------


def test_json_is_the_summary_and_nothing_else(visits: Path) -> None:
    answer = Answer("inspect", visits, "--json")
    assert answer.code == 0
    assert list(answer.json)[:2] == ["events", "nodes"]
    stream = EventStream.from_arrays(
        SRC, DST, T, label=[0, 0, 1, 0, 0], edge_features=np.ones((5, 1)), origin=str(visits)
    )
    notice = f"{visits}: ignored 1 column(s): 'mood'."
    assert answer.json == summarise(stream).as_dict() | {"notices": [notice]}
    assert answer.err == f"note: {notice}\n"


def test_the_text_has_the_same_numbers(visits: Path) -> None:
    answer = Answer("inspect", visits)
    lines = [" ".join(line.split()) for line in answer.out.splitlines()]
    assert answer.code == 0
    for line in (
        "visits.parquet",
        "events 5",
        "nodes 5 = 3 sources + 2 destinations (bipartite)",
        "time 37 s, from 3 to 40 (int64), taken as seconds",
        "ties 2 events (40.0%) share their time, at most 2 at once; 4 distinct times",
        "repeats 20.0% of the events repeat a pair; 4 distinct pairs",
        "features 1 per event",
        "labels 4 of class 0, 1 of class 1",
        "ids text; sources such as ann, bob, eve; destinations such as page1, page2",
        # The cuts lie between 10 and 21 (quantile 0.7 at place 2.8) and between 21 and 40 (at 3.4).
        "training 3 7 s 4 - -",
        "validation 1 18 s 2 1 (50.0%) 1 (100.0%)",
        "test 1 37 s 2 0 (0.0%) 0 (0.0%)",
        # intervals in order: 0 0 0 7 30
        "source silent for up to 0 s 0 s 2.8 s 11.6 s 30 s",
        "sources 3 2 2 40.0%",
        "destinations 2 2.5 3 60.0%",
    ):
        assert line in lines, answer.out


def test_unix_times_are_shown_as_dates(bare: Path) -> None:
    (bare / "days.csv").write_text("src,dst,t\na,b,2020-09-13T12:26:40\nb,a,2020-10-13\n")
    text = " ".join(Answer("inspect", "days.csv").out.split())
    assert (
        "from 1,600,000,000 to 1,602,547,200 (int64); read as Unix seconds, 2020-09-13 to 2020-10-13" in text
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--src", "who", "--dst", "page", "--time", "when"], {"events": 3, "edge": 0, "labels": None}),
        (["--src", "who", "--dst", "page", "--t", "when", "--label", "score"], {"labels": {"4": 1, "5": 2}}),
        (["--src", "page", "--dst", "who", "--time", "when"], {"sources": ["x", "y"]}),
        (["--src", "who", "--dst", "page", "--time", "when", "--features", "score, when"], {"edge": 2}),
        (["--src", "who", "--dst", "page", "--time", "when", "--unipartite"], {"bipartite": False}),
        (["--src", "who", "--dst", "page", "--time", "when", "--bipartite"], {"bipartite": True}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_columns_can_be_named(options: list[str], expected: dict[str, Any], bare: Path) -> None:
    (bare / "own.csv").write_text("page,who,when,score\nx,ann,1,5\ny,bob,2,4\nx,bob,7,5\n")
    found = Answer("inspect", "own.csv", *options, "--json").json
    shown = {
        "events": found["events"],
        "edge": found["features"]["edge"],
        "labels": found["labels"],
        "sources": found["ids"]["sources"],
        "bipartite": found["bipartite"],
    }
    assert shown | expected == shown


def test_columns_can_be_given_by_position_with_a_format(bare: Path) -> None:
    (bare / "own.log").write_text("x\t9\tann\ny\t8\tbob\nx\t7\tbob\n")
    options = ["--src", "2", "--dst", "0", "--time", "1", "--format", "tsv"]
    found = Answer("inspect", "own.log", *options, "--json").json
    assert (found["events"], found["time"]["first"], found["ids"]["sources"]) == (3, 7, ["ann", "bob"])


@pytest.mark.parametrize(
    ("option", "shown"),
    [
        (["--src", "1", "--dst", "0"], ["page1", "page2"]),
        (["--src", "dst", "--dst", "0"], ["page1", "page2"]),
        (["--src", "5"], ["ok"]),
    ],
)
def test_named_columns_can_be_given_by_position_too(
    option: list[str], shown: list[str], visits: Path
) -> None:
    assert Answer("inspect", visits, *option, "--json").json["ids"]["sources"] == shown


def test_the_time_and_the_label_can_be_given_by_position(visits: Path) -> None:
    found = Answer("inspect", visits, "--time", "3", "--label", "2", "--features", "4", "--json").json
    assert (found["time"]["last"], found["features"]["edge"]) == (1, 1)
    assert found["labels"] == {"3": 1, "10": 2, "21": 1, "40": 1}


@pytest.mark.parametrize(("word", "width"), [("all", 1), ("none", 0)])
def test_features_are_taken_or_left_out(word: str, width: int, visits: Path) -> None:
    assert Answer("inspect", visits, "--features", word, "--json").json["features"]["edge"] == width


def test_datasets_are_used_by_name(bare: Path) -> None:
    found = Answer("inspect", "synthetic:321", "--json").json
    assert (found["events"], found["origin"], found["bipartite"]) == (321, "synthetic:321", True)


def test_a_dataset_is_read_from_the_given_directory(visits: Path, tmp_path: Path) -> None:
    streams = tmp_path / "streams"
    streams.mkdir()
    visits.rename(streams / "wikipedia.parquet")
    answer = Answer("inspect", "wikipedia", "--data-dir", streams, "--json")
    assert answer.json["events"] == 5
    assert "not wikipedia as published: 5 events, expected 157,474" in answer.err


def test_reading_options_are_parsed() -> None:
    given = [
        *(["--src", "who", "--dst", "1", "--time", "when", "--label", "3"]),
        *(["--features", "f1,7", "--format", "tsv", "--unipartite", "--data-dir", "streams"]),
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
        columns.updated(format="tsv", bipartite=False, data_dir="streams"),
        ReadOptions(features=True),
        ReadOptions(features=False, bipartite=True),
    ]


def test_every_reading_option_has_a_flag() -> None:
    assert set(data.READING_OPTIONS) == {field.name for field in fields(ReadOptions)}


# --- the figure ----------------------------------------------------------------------------------------


def test_the_figure_is_saved_and_the_summary_printed(visits: Path, bare: Path) -> None:
    answer = Answer("inspect", visits, "--plot", "visits.png", "--json")
    assert answer.json["events"] == 5
    assert "figure saved to visits.png" in answer.err
    assert len(np.unique(imread(bare / "visits.png").reshape(-1, 4), axis=0)) > 20


@pytest.mark.parametrize(
    ("file", "shown"),
    [
        ("src,dst\n1,2\n", "no column is called 't'"),
        ("src,dst,t\n1,2,x\n", "line 2"),
        ("src,dst,t\n", "a stream needs at least one"),
    ],
)
def test_a_bad_file_leaves_no_figure(file: str, shown: str, bare: Path) -> None:
    (bare / "bad.csv").write_text(file)
    answer = Answer("inspect", "bad.csv", "--plot", "bad.png")
    assert (answer.code, answer.out) == (2, "")
    assert shown in answer.err
    assert [path.name for path in bare.iterdir()] == ["bad.csv"]


def test_an_unknown_figure_format_is_rejected_before_reading(
    visits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "read_stream", lambda *_, **__: pytest.fail("the file was read"))
    answer = Answer("inspect", visits, "--plot", "visits.docx")
    assert answer.code == 2
    assert "Unknown picture format 'docx'" in answer.err


def test_a_failure_while_drawing_keeps_the_old_figure(
    visits: Path, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bare / "x.png").write_text("old")

    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(plots, "overview", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        Answer("inspect", visits, "--plot", "x.png")
    assert (bare / "x.png").read_text() == "old"


# --- datasets ------------------------------------------------------------------------------------------


def test_every_dataset_is_listed(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "mooc.csv").touch()
    (tmp_path / "streams").mkdir()
    (tmp_path / "streams" / "wikipedia.parquet").touch()
    answer = Answer("datasets", "--data-dir", tmp_path / "streams", "--json")
    found = {entry["name"]: entry for entry in answer.json}
    assert list(found) == list(DATASETS)
    for name, entry in found.items():
        known = DATASETS[name]
        assert (entry["events"], entry["nodes"], entry["url"]) == (known.events, known.nodes, known.url)
        assert entry["edge_width"] == known.edge_width
    places = {name: (entry["place"], entry["path"]) for name, entry in found.items()}
    assert places["wikipedia"] == ("directory", str(tmp_path / "streams" / "wikipedia.parquet"))
    assert places["mooc"] == ("cache", str(tmp_path / "cache" / "mooc.csv"))
    assert places["reddit"] == ("missing", None)
    assert places["synthetic"] == ("generated", None)


def test_the_listing_says_what_is_on_this_machine(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "mooc.csv").touch()
    out = Answer("datasets").out
    blocks = {block.split()[0]: " ".join(block.split()) for block in out.split("\n\n")}
    assert blocks["name"] == "name events nodes features labels"
    assert blocks["mooc"].startswith("mooc 411,749 7,144 4 yes ")
    assert blocks["enron"].startswith("enron 125,235 184 - no ")
    assert f"cached: {tmp_path / 'cache' / 'mooc.csv'} http" in blocks["mooc"]
    assert "not on this machine; downloaded when used http" in blocks["wikipedia"]
    assert "not on this machine; must be obtained manually" in blocks["enron"]
    assert "generated when used" in blocks["synthetic"]


def test_a_missing_directory_is_rejected() -> None:
    answer = Answer("datasets", "--data-dir", "nowhere")
    assert (answer.code, answer.out) == (2, "")
    assert "'nowhere' is not a directory" in answer.err


def test_a_registered_dataset_is_listed_and_a_broken_one_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint("broken", "no_such_package:DATASET", "contig.datasets")]
    monkeypatch.setattr(registry, "entry_points", lambda group: points if group == "contig.datasets" else [])
    monkeypatch.setattr(DATASETS, "_registered", dict(DATASETS._registered))
    register_dataset(Dataset("visits", filename="visits.csv", description="of pages"))
    answer = Answer("datasets")
    assert "visits - - - yes of pages not on this machine; must be obtained manually" in " ".join(
        answer.out.split()
    )
    assert "note: The dataset 'broken' cannot be loaded (No module named 'no_such_package')" in answer.err


# --- errors and help -----------------------------------------------------------------------------------


def test_an_unknown_name_gets_a_suggestion() -> None:
    done = program("inspect", "wikipedai", "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: Unknown dataset 'wikipedai'. Did you mean 'wikipedia'?")
    assert done.stderr.count("\n") == 1


def test_a_traceback_is_shown_in_debug_mode() -> None:
    done = program("inspect", "wikipedai", CONTIG_DEBUG="1")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "ConfigError: Unknown dataset 'wikipedai'" in done.stderr


def test_unknown_options_are_rejected(visits: Path) -> None:
    answer = Answer("inspect", visits, "--jsno")
    assert (answer.code, answer.out) == (2, "")
    assert "--jsno" in answer.err


def test_success_exits_with_0(visits: Path) -> None:
    done = program("inspect", str(visits), "--json")
    assert (done.returncode, json.loads(done.stdout)["nodes"]) == (0, 5)


def test_an_interrupt_exits_with_130(visits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(data, "read_stream", interrupt)
    answer = Answer("inspect", visits)
    assert (answer.code, answer.out, answer.err) == (130, "", "error: interrupted\n")


def test_a_long_message_stays_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    path = f"/{'very-long-folder/' * 12}events[1].csv"
    console.error(f"{path}: [bold]not markup[/bold]")
    assert capsys.readouterr().err == f"error: {path}: [bold]not markup[/bold]\n"


def test_the_version_is_the_package_s() -> None:
    assert Answer("--version").out == f"contig {__version__}\n"


@pytest.mark.parametrize("command", [[], ["inspect"], ["datasets"]], ids=" ".join)
def test_help_gives_examples(command: list[str]) -> None:
    out = Answer(*command, "--help").out
    name = command[0] if command else "datasets"
    assert "Examples" in out
    assert f"contig {name}" in out.partition("Examples")[2]


@pytest.mark.parametrize("command", ["inspect", "datasets"])
def test_help_loads_no_heavy_package(command: str) -> None:
    code = (
        "import sys, contig.cli\n"
        f"try: contig.cli.app(['{command}', '--help'])\n"
        "except SystemExit: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert {"contig", "typer"} <= loaded
    assert (
        loaded & {"torch", "matplotlib", "sklearn", "scipy", "pyarrow", "numba", "pandas", "numpy"} == set()
    )


def test_log_handlers_are_removed_after_a_command(visits: Path) -> None:
    log = logging.getLogger("contig")
    before = log.level, list(log.handlers)
    assert "ignored 1 column" in Answer("inspect", visits).err
    assert (log.level, list(log.handlers)) == before


# --- the spinner ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("terminal", [True, False])
def test_a_spinner_is_shown_on_terminals_only(
    terminal: bool, visits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = io.StringIO()
    watched = Console(file=screen, force_terminal=terminal, width=90)
    monkeypatch.setattr(console, "err", lambda: watched)
    data.read_stream(str(visits), ReadOptions())
    assert ("reading" in screen.getvalue()) is terminal
