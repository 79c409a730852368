"""``contig evaluate``: the numbers of the library, as JSON and as tables, for every task there is."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyarrow import csv, feather
from support.commands import START, Answer, seconds
from support.sharing import ShareTask
from support.trained import TINY

from contig import registry
from contig.cli import tables
from contig.data.clock import duration
from contig.data.read_options import ReadOptions
from contig.data.synthetic import synthetic
from contig.runs.run import Run
from contig.tasks import ResultTable, label_decoding, read_evaluation
from contig.tasks.intervals import IntervalProtocol, IntervalResult, IntervalsTask
from contig.tasks.results import LinkMetrics
from contig.training.fit import fit

pytestmark = pytest.mark.usefixtures("fast_training")

READERS = {".csv": csv.read_csv, ".parquet": pq.read_table, ".arrow": feather.read_table}
SETS = ("0-20%", "20-40%", "40-60%", "60-80%", "80-100%")


@pytest.fixture(scope="module", autouse=True)
def short_decoders() -> Iterator[None]:
    """Decoders of a few steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(label_decoding, "VALIDATIONS", 3)
        patch.setattr(label_decoding, "STEPS", 10)
        yield


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables must fit a usual terminal."""
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture(scope="module")
def labeled(tmp_path_factory: pytest.TempPathFactory, fast_training: None) -> Path:
    """A run with labels."""
    stream = synthetic(600, sources=40, destinations=9, seed=3, dropout=0.9)
    out = tmp_path_factory.mktemp("runs") / "labeled"
    fit(stream, "contig", out=out, epochs=1, show=False, **TINY)
    return out


@pytest.fixture(scope="module")
def heuristic(tmp_path_factory: pytest.TempPathFactory, fast_training: None) -> Path:
    """A heuristic on a stream without labels."""
    stream = synthetic(300, sources=20, destinations=9, seed=3)
    columns = type(stream).from_arrays(stream.src, stream.dst, stream.t, origin="bare")
    out = tmp_path_factory.mktemp("runs") / "heuristic"
    fit(columns, "recency", out=out, show=False)
    return out


# --- JSON ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        (["link"], {}),
        (
            ["link", "--negatives", "inductive", "--batch-size", 12],
            {"negatives": "inductive", "batch_size": 12},
        ),
        (["recommend"], {}),
        (["recommend", "--as-of", "batch"], {"as_of": "batch"}),
        (["recommend", "--candidates", 4, "--batch-size", 11], {"candidates": 4, "batch_size": 11}),
        (["intervals", "--negatives", "historical"], {"negatives": "historical"}),
        (["classify", "--seeds", 2], {"seeds": 2}),
    ],
)
def test_json_is_the_evaluation_and_nothing_else(
    options: list[object], settings: dict[str, Any], labeled: Path, tmp_path: Path
) -> None:
    expected = Run.open(labeled).evaluate(str(options[0]), **settings)
    file = tmp_path / "result.json"
    command = ["evaluate", labeled, "--task", *options, "--out", file, "--json", "--no-heuristics"]
    assert Answer(*command).json == expected.as_dict()
    assert read_evaluation(file) == expected


def test_link_prediction_is_the_default(heuristic: Path) -> None:
    found = Answer("evaluate", heuristic, "--json").json
    assert found == Run.open(heuristic).evaluate("link").as_dict()
    assert found["model"] == "recency"


def test_a_model_that_loses_to_a_heuristic_says_so(labeled: Path) -> None:
    """In the table and in JSON, for every selection, by the metric of the task."""
    run = Run.open(labeled)
    for task, metric in (("link", "ap"), ("recommend", "mrr")):
        content = Answer("evaluate", labeled, "--task", task, "--json").json
        heuristics = run.evaluate_heuristics(task)
        assert content["heuristics"] == {name: one.as_dict() for name, one in heuristics.items()}
        printed = Answer("evaluate", labeled, "--task", task).words
        best = max(heuristics, key=lambda name: getattr(heuristics[name].result.transductive, metric))
        ours, theirs = content["transductive"][metric], content["heuristics"][best]["transductive"][metric]
        text = f"contig loses to {best} by {100 * (theirs - ours):.2f} points of {metric.upper()}"
        assert (text in printed) is (theirs > ours)
        assert ("transductive" in [loss["selection"] for loss in content["loses_to"]]) is (theirs > ours)


def test_heuristics_are_not_tested_where_they_cannot_be(labeled: Path, heuristic: Path) -> None:
    assert "recency" not in Answer("evaluate", labeled, "--task", "classify", "--seeds", 1).words
    assert "edgebank" not in Answer("evaluate", heuristic).words


# --- tables --------------------------------------------------------------------------------------------


def test_link_table(labeled: Path) -> None:
    found = Run.open(labeled).evaluate(negatives="historical").result.transductive
    answer = Answer("evaluate", labeled, "--negatives", "historical")
    cells = " ".join(f"{100 * x:.2f}" for x in (found.ap, found.auc, found.ap_overall, found.auc_overall))
    assert f"transductive contig {cells} {found.events}* " in answer.words
    assert "* fewer than 100 events" in answer.words
    assert "negatives: historical, 0.00% of them random because no other was left (100.00% by dyglib)" in (
        answer.words
    )
    assert "batch size 30, holdout tgn" in answer.words


def test_recommend_table(labeled: Path) -> None:
    found = Run.open(labeled).evaluate("recommend").as_dict()["transductive"]
    answer = Answer("evaluate", labeled, "--task", "recommend", "--no-heuristics")
    recalls = " ".join(f"{100 * found[f'recall@{k}']:.2f}" for k in (5, 10, 15, 20))
    assert "MRR R@5 R@10 R@15 R@20 events" in answer.words
    assert f"transductive contig {100 * found['mrr']:.2f} {recalls} {found['events']}" in answer.words
    assert "all 9 destinations but the other true ones" in answer.words
    assert "at each event's own time" in answer.words
    assert "ties: mean of the best and the worst rank" in answer.words


def test_intervals_table(labeled: Path) -> None:
    found = Run.open(labeled).evaluate("intervals").result
    answer = Answer("evaluate", labeled, "--task", "intervals", "--no-heuristics")
    assert "Test, % up to AP AUC events new AP new AUC new" in answer.words
    for name, span in found.intervals.items():
        seen = found.transductive[name]
        cells = f"{100 * seen.ap:.2f} {100 * seen.auc:.2f} {seen.events}*"
        assert f"{name} {duration(span[1])} {cells} " in answer.words


def test_classify_table(labeled: Path) -> None:
    found = Run.open(labeled).evaluate("classify", seeds=2).result
    answer = Answer("evaluate", labeled, "--task", "classify", "--seeds", 2)
    seen, train = found.transductive, found.labels.train
    auc = f"{100 * seen.auc:.2f} ± {100 * seen.auc_std:.2f}"
    assert f"transductive contig {auc} {seen.positives} {seen.events}" in answer.words
    assert f"label 1: {train.positives} of {train.events} in train" in answer.words
    assert "over 2 decoders; each step draws as many positives as others" in answer.words


def test_missing_values_are_dashes() -> None:
    """A set without events, as intervals that are nearly all equal leave them."""
    empty = dict.fromkeys(SETS, LinkMetrics(events=0))
    protocol = IntervalProtocol.of(
        "intervals", "tgn", inductive=True, negatives="random", metrics="m", sets="s"
    )
    result = IntervalResult(
        protocol=protocol,
        intervals={**dict.fromkeys(SETS), "0-20%": (0, 0.25)},
        transductive={**empty, "0-20%": LinkMetrics(ap=0.5, auc=0.25, events=3)},
        inductive=empty,
        old_old=empty,
        new_old=empty,
        new_new=empty,
    )
    assert IntervalsTask.table({"m": result}).rows[:2] == (
        ("0-20%", "0.25", "50.00", "25.00", "3*", "-", "-", "0"),
        ("20-40%", "-", "-", "-", "0", "-", "-", "0"),
    )
    both = IntervalsTask.table({"m": result, "n": result}).rows
    assert [row[0] for row in both[4:6]] == ["80-100%, m", "0-20%, n"]


def test_names_are_on_the_left_and_never_markup() -> None:
    table = tables.rich_table(ResultTable(("a", "b", "c"), (("[red]x[/red]", "y", "1"),), names=2))
    assert [column.justify for column in table.columns] == ["left", "left", "right"]
    assert list(table.columns[0].cells) == [r"\[red]x\[/red]"]


# --- refusals ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--task", "recomend"], "Unknown task 'recomend'. Did you mean 'recommend'"),
        (["--negatives", "historic"], "Did you mean 'historical'"),
        (["--batch-size", "0"], "--batch-size"),
        (["--task", "recommend", "--as-of", "evnt"], "Did you mean 'event'"),
        (["--task", "recommend", "--negatives", "random"], "Unknown option 'negatives'"),
        (["--as-of", "batch"], "Unknown option 'as_of'"),
        (["--task", "recommend", "--candidates", "0"], "candidates=0"),
        (["--task", "classify"], "bare has no labels"),
        (["--negative", "random"], "--negative"),
    ],
)
def test_evaluate_refuses(options: list[str], message: str, heuristic: Path) -> None:
    answer = Answer("evaluate", heuristic, *options)
    assert message in answer.refusal
    assert answer.out == ""


# --- later events --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def later(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Visits after those of ``run``, some of a person it does not know."""
    path = tmp_path_factory.mktemp("later") / "later.csv"
    times = range(START + 11 * 86_400, START + 11 * 86_400 + 40)
    people = [f"n{n % 9 if n % 5 else 'ew'}" for n in range(40)]
    lines = [f"{person},n{7 + n % 8},{t}" for n, (person, t) in enumerate(zip(people, times, strict=True))]
    path.write_text("who,page,when\n" + "\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("size", "noted"),
    [
        (25, None),
        (37, "the last of 2 batches has only 3 events, and counts as much as a full one"),
        (40, None),
        (3, None),
    ],
)
def test_a_small_last_batch_is_noted(
    size: int, noted: str | None, run: Path, later: Path, here: Path
) -> None:
    words = Answer("evaluate", run, "--data", later, *READING, "--batch-size", size).words
    assert ("the last of" in words) == (noted is not None)
    assert noted is None or noted in words


READING = ["--src", "who", "--dst", "page", "--time", "when"]


@pytest.mark.parametrize("name", ["p.csv", "deep/p.parquet", "p.arrow", "p.json"])
def test_predictions_of_later_events(name: str, run: Path, later: Path, here: Path) -> None:
    expected = Run.open(run).evaluate_each(data=later, reading=ReadOptions(src="who", dst="page", t="when"))
    answer = Answer("evaluate", run, "--data", later, *READING, "--out", name, "--json", "--no-compare")
    assert answer.json == expected.evaluation.as_dict()
    assert answer.json["data"]["origin"] == str(later)
    assert answer.json["transductive"]["events"] == 40
    assert answer.json["inductive"]["events"] == 8
    assert f"wrote {name} (40 predictions)" in answer.err
    if name == "p.json":
        rows = json.loads((here / name).read_text())["predictions"]
        assert read_evaluation(here / name) == expected.evaluation
    else:
        rows = READERS[Path(name).suffix](name).to_pylist()
    for row, line in zip(rows, later.read_text().splitlines()[1:], strict=True):
        assert f"{row['src']},{row['dst']},{seconds([row['t']])[0]:.0f}" == line
        assert row["new_node"] == (row["src"] == "new")
        assert row["probability"] == pytest.approx(1 / (1 + math.exp(-row["score"])), rel=1e-6)
    found = [row["score"] for row in rows]
    np.testing.assert_allclose(found, expected.predictions["score"], rtol=1e-6)


def test_the_predictions_of_each_task(labeled: Path, here: Path) -> None:
    """Their means are the metrics of the result."""
    tasks = {"recommend": [], "intervals": [], "classify": ["--seeds", 2]}
    tables = {}
    for task, options in tasks.items():
        answer = Answer(
            "evaluate", labeled, "--task", task, *options, "--no-heuristics", "--out", "p.parquet", "--json"
        )
        tables[task] = pq.read_table("p.parquet").to_pandas(), answer.json
    ranks, found = tables["recommend"]
    assert (1 / ranks["rank"]).mean() == pytest.approx(found["transductive"]["mrr"], rel=1e-5)
    scores, found = tables["intervals"]
    last = scores[scores["interval"] > found["intervals"]["60-80%"][1]]
    assert len(last) == found["transductive"]["80-100%"]["events"]
    labels, found = tables["classify"]
    assert labels["label"].sum() == found["labels"]["test"]["positives"]
    assert labels["probability"].between(0, 1).all()


def test_a_table_for_latex(labeled: Path, here: Path) -> None:
    answer = Answer("evaluate", labeled, "--task", "recommend", "--latex", "tables/r.tex")
    text = (here / "tables" / "r.tex").read_text()
    found = Run.open(labeled).evaluate("recommend", show=False).result.transductive
    assert f"transductive: contig & {100 * found.mrr:.2f} & " in text
    assert "transductive: recency & " in text
    assert "\\begin{tabular}{lrrrrrr}" in text
    assert "model & MRR & R@5" in text
    assert "% ties: " in text
    assert "wrote tables/r.tex" in answer.err


def test_heuristics_are_tested_by_intervals_too(labeled: Path) -> None:
    words = Answer("evaluate", labeled, "--task", "intervals").words
    assert "0-20%, contig" in words
    assert "80-100%, recency" in words


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--src", "who"], "src is an option for reading a file; name the file with --data"),
        (["--data", "none.csv"], "none.csv"),
        (["--data", "early.csv"], "Only events after those of the run can be evaluated"),
        (["--out", "x.txt"], "Unknown file format '.txt'"),
        (["--latex", "folder"], "folder"),
        (["--latex", "x.pdf"], "--latex x.pdf: Unknown file format '.pdf'"),
    ],
)
def test_refused_files(options: list[str], message: str, run: Path, here: Path) -> None:
    (here / "early.csv").write_text("src,dst,t\nn1,n9,5\n")
    (here / "folder").mkdir()
    answer = Answer("evaluate", run, *options)
    assert answer.code == 2
    assert message in answer.err
    assert {path.name for path in here.iterdir()} == {"early.csv", "folder"}


# --- tasks of other packages ---------------------------------------------------------------------------


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that offers a task, and one that cannot be imported."""
    points = [
        EntryPoint("share", "support.sharing:ShareTask", "contig.tasks"),
        EntryPoint("lost", "no_such_package:Task", "contig.tasks"),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: [p for p in points if p.group == group])


@pytest.mark.usefixtures("installed")
def test_a_task_brings_its_options_and_its_table(heuristic: Path) -> None:
    help = Answer("evaluate", "--help")
    assert "--power" in help.out
    assert "What the share is raised to (share)." in " ".join(help.out.replace("│", " ").split())
    assert f"share: {ShareTask.summary}" in " ".join(help.out.replace("│", " ").split())
    assert "The task 'lost' cannot be loaded" in help.err
    answer = Answer("evaluate", heuristic, "--task", "share", "--power", 2)
    assert "model share" in answer.words
    assert f"recency {0.15**2:.3f} of all events batch size 200, holdout none" in answer.words
    refused = Answer("evaluate", heuristic, "--power", 2).refusal
    assert "Unknown option 'power' of the task link" in refused


def test_a_task_can_be_named_by_its_path(heuristic: Path) -> None:
    found = Answer("evaluate", heuristic, "--task", "support.sharing:ShareTask", "--json").json
    assert found["share"] == pytest.approx(0.15)
    assert found["protocol"]["task"] == "share"
    assert "support.sharing" in sys.modules
    answer = Answer("evaluate", heuristic, "--task=support.sharing:ShareTask", "--power", 2, "--json")
    assert answer.json["share"] == pytest.approx(0.15**2)
    assert "--power" in Answer("evaluate", "--task", "support.sharing:ShareTask", "--help").out


def test_the_choices_of_an_option_are_shown() -> None:
    help = Answer("evaluate", "--help").out
    assert "event|batch" in help
    for kind in ("random", "historical", "inductive", "historical-source"):  # too many for the metavar
        assert kind in help.replace("\n", " ")


def test_every_output_says_what_it_wrote(heuristic: Path, here: Path) -> None:
    answer = Answer("evaluate", heuristic, "--out", "new/folder/x.json")
    assert answer.code == 0
    assert "wrote new/folder/x.json" in answer.err
    assert (here / "new" / "folder" / "x.json").is_file()
    refused = Answer("evaluate", heuristic, "--out", "new/folder/x.json/y.json").refusal
    assert "new/folder/x.json is a file, not a folder" in refused
