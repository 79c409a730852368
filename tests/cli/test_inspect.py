from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread
from support.commands import Answer

from contig import plots
from contig.cli import data
from contig.data.events import EventStream
from contig.data.summary import summarize

pytestmark = pytest.mark.usefixtures("isolated")


def test_json_is_the_summary_and_nothing_else(five_visits: Path) -> None:
    answer = Answer("inspect", five_visits, "--json")
    assert answer.code == 0
    assert list(answer.json)[:2] == ["events", "nodes"]
    stream = EventStream.from_arrays(
        list("abaeb"),
        list("xyyxy"),
        [3, 10, 10, 21, 40],
        label=[0, 0, 1, 0, 0],
        edge_features=np.ones((5, 1)),
        origin=str(five_visits),
    )
    notice = (
        f"{five_visits}: ignored 1 column: 'mood'. To use it as a feature: --features f1,mood "
        "(features=['f1', 'mood'])."
    )
    assert answer.json == summarize(stream).as_dict() | {"notices": [notice]}
    assert answer.err == f"note: {notice}\n"


def test_the_text_has_the_same_numbers(five_visits: Path) -> None:
    answer = Answer("inspect", five_visits)
    lines = [" ".join(line.split()) for line in answer.out.splitlines()]
    assert answer.code == 0
    for line in (
        "visits.parquet",
        "events 5",
        "nodes 5 = 3 sources + 2 destinations (bipartite)",
        "time 37 s, from 3 to 40 (int64), taken as seconds",
        "ties 2 events (40.0%) share their time, at most 2 at once; 4 distinct times",
        "repeats 20.0% of the events repeat a pair; 4 distinct pairs",
        "same rows 0 events repeat the source, destination, time and features of an earlier one",
        "features 1 per event",
        "labels 4 of class 0, 1 of class 1",
        "ids text; sources such as a, b, e; destinations such as x, y",
        # The cuts are between 10 and 21 (quantile 0.7 at place 2.8) and between 21 and 40 (at 3.4).
        "training 3 7 s 4 - -",
        "validation 1 18 s 2 1 (50.0%) 1 (100.0%)",
        "test 1 37 s 2 0 (0.0%) 0 (0.0%)",
        # intervals in order: 0 0 0 7 30
        "source silent for up to 0 s 0 s 2.8 s 11.6 s 30 s",
        "sources 3 2 2 40.0%",
        "destinations 2 2.5 3 60.0%",
    ):
        assert line in lines, answer.out


def test_repeated_rows_are_counted(isolated: Path) -> None:
    (isolated / "twice.csv").write_text("src,dst,t,f0\na,x,3,1\na,x,3,1\na,x,3,2\nb,x,3,1\na,y,5,1\n")
    line = "same rows 1 event (20.0%) repeats the source, destination, time and features of an earlier one"
    assert line in " ".join(Answer("inspect", "twice.csv").out.split())
    assert Answer("inspect", "twice.csv", "--json").json["repeats"] == {"pairs": 3, "ratio": 0.4, "rows": 1}
    without = Answer("inspect", "twice.csv", "--features", "none", "--json").json
    assert without["repeats"]["rows"] == 2
    text = (isolated / "twice.csv").read_text()
    (isolated / "twice.csv").write_text(text + "a,x,3,2\n")
    assert "same rows 2 events (33.3%) repeat the source" in " ".join(
        Answer("inspect", "twice.csv").out.split()
    )


def test_repeated_rows_of_an_index_are_not_counted(five_visits: Path) -> None:
    pytest.importorskip("duckdb")
    assert Answer("index", five_visits, "--out", "indexed").code == 0
    assert "same rows not counted in an index" in " ".join(Answer("inspect", "indexed").out.split())
    assert Answer("inspect", "indexed", "--json").json["repeats"] == {"pairs": 4, "ratio": 0.2, "rows": None}


def test_ctrl_c_says_how_to_go_on_with_an_index(five_visits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("contig.history.building.build_index", interrupted)
    answer = Answer("index", five_visits, "--out", "indexed")
    assert (answer.code, answer.err) == (130, "error: interrupted; to resume, repeat the command\n")


def test_dates_are_shown_as_dates_and_unix_times_as_both(isolated: Path) -> None:
    (isolated / "days.csv").write_text("src,dst,t\na,b,2020-09-13T12:26:40\nb,a,2020-10-13\n")
    text = " ".join(Answer("inspect", "days.csv").out.split())
    assert "time 29.5 days, from 2020-09-13T12:26:40Z to 2020-10-13T00:00:00Z" in text
    (isolated / "unix.csv").write_text("src,dst,t\na,b,1600000000\nb,a,1602547200\n")
    text = " ".join(Answer("inspect", "unix.csv").out.split())
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
def test_columns_can_be_named(options: list[str], expected: dict[str, Any], isolated: Path) -> None:
    (isolated / "own.csv").write_text("page,who,when,score\nx,ann,1,5\ny,bob,2,4\nx,bob,7,5\n")
    found = Answer("inspect", "own.csv", *options, "--json").json
    shown = {
        "events": found["events"],
        "edge": found["features"]["edge"],
        "labels": found["labels"],
        "sources": found["ids"]["sources"],
        "bipartite": found["bipartite"],
    }
    assert shown | expected == shown


def test_columns_can_be_given_by_position_with_a_format(isolated: Path) -> None:
    (isolated / "own.log").write_text("x\t9\tann\ny\t8\tbob\nx\t7\tbob\n")
    options = ["--src", "2", "--dst", "0", "--time", "1", "--format", "tsv"]
    found = Answer("inspect", "own.log", *options, "--json").json
    assert (found["events"], found["time"]["first"], found["ids"]["sources"]) == (3, 7, ["ann", "bob"])


@pytest.mark.parametrize(
    ("option", "shown"),
    [
        (["--src", "1", "--dst", "0"], ["x", "y"]),
        (["--src", "dst", "--dst", "0"], ["x", "y"]),
        (["--src", "5"], ["ok"]),
    ],
)
def test_named_columns_can_be_given_by_position_too(
    option: list[str], shown: list[str], five_visits: Path
) -> None:
    assert Answer("inspect", five_visits, *option, "--json").json["ids"]["sources"] == shown


def test_the_time_and_the_label_can_be_given_by_position(five_visits: Path) -> None:
    found = Answer("inspect", five_visits, "--time", "3", "--label", "2", "--features", "4", "--json").json
    assert (found["time"]["last"], found["features"]["edge"]) == (1, 1)
    assert found["labels"] == {"3": 1, "10": 2, "21": 1, "40": 1}


@pytest.mark.parametrize(("word", "width"), [("all", 1), ("none", 0)])
def test_features_are_taken_or_left_out(word: str, width: int, five_visits: Path) -> None:
    assert Answer("inspect", five_visits, "--features", word, "--json").json["features"]["edge"] == width


def test_datasets_are_used_by_name(isolated: Path) -> None:
    found = Answer("inspect", "synthetic:321", "--json").json
    assert (found["events"], found["origin"], found["bipartite"]) == (321, "synthetic:321", True)


def test_a_dataset_is_read_from_the_given_folder(five_visits: Path, tmp_path: Path) -> None:
    streams = tmp_path / "streams"
    streams.mkdir()
    five_visits.rename(streams / "wikipedia.parquet")
    answer = Answer("inspect", "wikipedia", "--data-dir", streams, "--json")
    assert answer.json["events"] == 5
    assert "not wikipedia as published: 5 events, expected 157,474" in answer.err


# --- the figure ----------------------------------------------------------------------------------------


def test_the_figure_is_saved_and_the_summary_printed(five_visits: Path, isolated: Path) -> None:
    answer = Answer("inspect", five_visits, "--plot", "visits.png", "--json")
    assert answer.json["events"] == 5
    assert "wrote visits.png" in answer.err
    assert len(np.unique(imread(isolated / "visits.png").reshape(-1, 4), axis=0)) > 20


@pytest.mark.parametrize(
    ("file", "shown"),
    [
        ("src,dst\n1,2\n", "events need three columns"),
        ("src,dst,t\n1,2,x\n", "line 2"),
        ("src,dst,t\n", "a stream needs at least one"),
    ],
)
def test_a_bad_file_leaves_no_figure(file: str, shown: str, isolated: Path) -> None:
    (isolated / "bad.csv").write_text(file)
    answer = Answer("inspect", "bad.csv", "--plot", "bad.png")
    assert (answer.code, answer.out) == (2, "")
    assert shown in answer.err
    assert [path.name for path in isolated.iterdir()] == ["bad.csv"]


def test_an_unknown_figure_format_is_rejected_before_reading(
    five_visits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "read_stream", lambda *_, **__: pytest.fail("the file was read"))
    answer = Answer("inspect", five_visits, "--plot", "visits.docx")
    assert answer.code == 2
    assert "Unknown image format 'docx'" in answer.err


def test_a_failure_while_drawing_keeps_the_old_figure(
    five_visits: Path, isolated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (isolated / "x.png").write_text("old")

    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(plots, "overview", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        Answer("inspect", five_visits, "--plot", "x.png")
    assert (isolated / "x.png").read_text() == "old"


def test_ids_cannot_command_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "hostile.csv"
    ids = ["\x1b]0;owned\x07", "\x9b31m", "\u202egnp.exe"]
    path.write_text("src,dst,t,\x1b[5mnew\n" + "".join(f"{x},b{x},{i},0\n" for i, x in enumerate(ids)))
    answer = Answer("inspect", path)
    assert answer.code == 0
    for name in ids:
        assert name.encode("unicode_escape").decode() in answer.out
    assert not set("\x1b\x07\x9b\u202e") & set(answer.out + answer.err)
