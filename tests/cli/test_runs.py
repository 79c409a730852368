from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from trained import TINY, numbers
from typer.testing import CliRunner

from contig import plots
from contig.cli import app
from contig.models import MODELS
from contig.readers import read_events
from contig.training import fit as fitting
from contig.training.fit import fit
from contig.training.folder import RunFolder
from contig.training.run import Run
from contig.training.session import Session

SET = [word for key, value in TINY.items() for word in ("--set", f"{key}={value}")]
COLUMNS = ["--src", "who", "--dst", "page", "--time", "when"]
START = 1_714_521_600  # 1 May 2024


class Answer:
    """What a command printed, and how it ended."""

    def __init__(self, *arguments: object) -> None:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments], prog_name="contig")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        self.code, self.out, self.err = result.exit_code, result.stdout, result.stderr

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)

    @property
    def words(self) -> str:
        return " ".join((self.out + self.err).split())


@pytest.fixture(scope="module", autouse=True)
def light() -> Iterator[None]:
    """One thread, and no learning curves: both cost more than these trainings."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "_draw_curve", lambda session, folder: None)
        yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty working folder and a wide terminal."""
    monkeypatch.delenv("CONTIG_DEBUG", raising=False)
    monkeypatch.setenv("COLUMNS", "130")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dated visits of ten people to eight pages, which share some of their names."""
    rng = np.random.default_rng(6)
    path = tmp_path_factory.mktemp("data") / "visits.csv"
    seconds = np.sort(rng.integers(0, 10 * 86_400, 280))
    dates = [f"{datetime.fromtimestamp(START + int(s), UTC):%Y-%m-%dT%H:%M:%SZ}" for s in seconds]
    lines = [f"n{rng.integers(0, 10)},n{rng.integers(7, 15)},{date}" for date in dates]
    path.write_text("who,page,when\n" + "\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def run(visits: Path, tmp_path_factory: pytest.TempPathFactory, light: None) -> Path:
    """Trained by the command."""
    out = tmp_path_factory.mktemp("runs") / "visits"
    command = ["train", visits, *COLUMNS, "--bipartite", "--out", out, "--epochs", 2, "--seed", 4, *SET]
    assert Answer(*command).code == 0
    return out


# --- train ---------------------------------------------------------------------------------------------


def test_training_is_that_of_the_library(visits: Path, run: Path, here: Path) -> None:
    stream = read_events(visits, src="who", dst="page", t="when", bipartite=True)
    expected = fit(stream, out=here / "run", epochs=2, seed=4, show=False, **TINY)
    assert numbers(RunFolder(run).metrics()) == numbers(expected.metrics)


def test_json_is_the_metrics_and_nothing_else(visits: Path) -> None:
    command = ["train", visits, *COLUMNS, "--bipartite", "--epochs", 1, "--seed", 9, *SET, "--json"]
    answer = Answer(*command, "--compare", "edgebank")
    assert answer.json["run"] == "runs/visits-contig-9"  # where it lies if nobody says
    told = {key: value for key, value in answer.json.items() if key not in ("run", "compare")}
    assert told == RunFolder("runs/visits-contig-9").metrics()
    stream = read_events(visits, src="who", dst="page", t="when", bipartite=True)
    rule = fit(stream, "edgebank", out="rule", show=False, batch_size=TINY["batch_size"])
    assert numbers(answer.json["compare"]["edgebank"]) == numbers(rule.metrics)
    assert "epoch   1  loss" in answer.err


def test_people_read_the_same_numbers(visits: Path) -> None:
    settings = ["--epochs", 1, "--out", "mine", *SET]
    answer = Answer("train", visits, *COLUMNS, "--bipartite", *settings, "--compare", "edgebank")
    metrics = RunFolder("mine").metrics()
    assert answer.code == 0
    for selection in ("transductive", "inductive"):
        m = metrics[selection]
        cells = [f"{100 * m[key]:.2f}" for key in ("ap", "auc", "ap_overall", "auc_overall")]
        assert " ".join([selection, "contig", *cells, f"{m['events']}"]) in answer.words
        assert re.search(rf"{selection} edgebank( \d+\.\d\d){{4}} {m['events']}", answer.words)
    assert "the best epoch was 1 of 1" in answer.words
    assert "the run is in mine" in answer.words
    assert re.search(r"[\d,]+ events/s in training, [\d,]+ events/s in the test", answer.words)


@pytest.mark.parametrize(
    ("data", "name"),
    [("synthetic:300", "synthetic-300-edgebank-0"), ("deep/events.2024.csv", "events-edgebank-0")],
)
def test_a_run_is_named_after_its_data(data: str, name: str, here: Path) -> None:
    (here / "deep").mkdir()
    (here / "deep" / "events.2024.csv").write_text(
        "src,dst,t\n" + "".join(f"{i % 7},{100 + i % 5},{i}\n" for i in range(90))
    )
    assert Answer("train", data, "--model", "edgebank", "--json").json["run"] == f"runs/{name}"


def test_a_recipe(visits: Path, here: Path) -> None:
    settings = {**TINY, "epochs": 3, "seed": 5, "rule": "paper", "dropout": 0.2}
    recipe = {"data": str(visits), "settings": settings}
    (here / "recipe.json").write_text(json.dumps(recipe))
    options = ["--epochs", 1, "--set", "dropout=0.3", "--out", "run"]
    assert Answer("train", "--config", "recipe.json", *COLUMNS, *options).code == 0
    config = RunFolder("run").config()
    assert (config.model, config.train.seed, config.train.rule) == ("contig", 5, "paper")
    assert (config.train.epochs, config.model_options.dropout) == (1, 0.3)  # the command line wins
    assert config.model_options.dim == TINY["dim"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[1]", "is not a recipe"),
        ('{"data": "x.csv", "settings": [1]}', "is not a recipe"),
        ('{"model": "contig"}', "is not a recipe"),
        ("{", "is not a recipe"),
    ],
)
def test_recipes_that_are_none(text: str, told: str, here: Path) -> None:
    (here / "recipe.json").write_text(text)
    answer = Answer("train", "--config", "recipe.json")
    assert answer.code == 2
    assert told in answer.err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--model", "contg"], "Unknown model 'contg'. Did you mean 'contig'"),
        (["--set", "epoch=8"], "Did you mean 'epochs'"),
        (["--set", "dim"], "is not of the form key=value"),
        (["--set", "lr=fast"], "lr='fast' is not a number"),
        (["--compare", "edgebnk"], "Did you mean 'edgebank'"),
        (["--compare", "contig"], "it must be trained itself"),
        (["--device", "abacus"], "device='abacus'"),
        (["--epochs", "0"], "epochs=0"),
        (["--config", "gone.json"], "gone.json: there is no such recipe"),
    ],
)
def test_wrong_wishes_are_refused_before_anything_is_made(
    options: list[str], told: str, visits: Path, here: Path
) -> None:
    answer = Answer("train", visits, *COLUMNS, *options)
    assert answer.code == 2
    assert told in answer.err
    assert list(here.iterdir()) == []


def test_something_must_be_named() -> None:
    answer = Answer("train")
    assert answer.code == 2
    assert "Nothing to train on" in answer.err


def test_a_run_is_not_overwritten(visits: Path, run: Path) -> None:
    answer = Answer("train", visits, *COLUMNS, "--out", run)
    assert answer.code == 2
    assert "holds a run already" in answer.err
    assert f"contig resume {run}" in answer.err


# --- resume --------------------------------------------------------------------------------------------


def test_ctrl_c_says_how_to_go_on(visits: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = Session.train_step

    def interrupted(self: Session) -> torch.Tensor:
        if self.progress.epoch == 1 and self.progress.step == 2:
            signal.raise_signal(signal.SIGINT)
        return step(self)

    command = ["train", visits, *COLUMNS, "--bipartite", "--out", "run", "--epochs", 2, "--seed", 4, *SET]
    with monkeypatch.context() as patch:
        patch.setattr(Session, "train_step", interrupted)
        answer = Answer(*command)
    assert answer.code == 130
    assert answer.err.splitlines()[-1] == "error: interrupted; nothing is lost. Go on with: contig resume run"
    refused = Answer("evaluate", "run")
    assert refused.code == 2
    assert "has no serving.pt: its training has not come that far" in refused.err
    resumed = Answer("resume", "run", "--json")
    assert numbers(resumed.json) == {"run": "run", **numbers(RunFolder(run).metrics())}


def test_ctrl_c_before_anything_was_made(visits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(RunFolder, "create", interrupt)
    answer = Answer("train", visits, *COLUMNS, "--out", "run", *SET)
    assert answer.code == 130
    assert answer.err.endswith("error: interrupted\n")


def test_train_for_longer(visits: Path, run: Path) -> None:
    command = ["train", visits, *COLUMNS, "--bipartite", "--out", "run", "--epochs", 1, "--seed", 4, *SET]
    assert Answer(*command).code == 0
    assert numbers(Answer("resume", "run", "--epochs", 2, "--json").json) == {
        "run": "run",
        **numbers(RunFolder(run).metrics()),
    }


# --- evaluate ------------------------------------------------------------------------------------------


def test_evaluate_json(run: Path) -> None:
    found = Answer("evaluate", run, "--task", "link", "--json").json
    assert found == Run.open(run).evaluate()
    assert {"protocol", "seed", "batch_size", "hardware"} <= set(found)
    for selection in ("transductive", "inductive"):
        assert set(found[selection]) == {"ap", "auc", "ap_overall", "auc_overall", "events"}
    harder = Answer("evaluate", run, "--negatives", "inductive", "--batch-size", 12, "--json").json
    assert harder == Run.open(run).evaluate(negatives="inductive", batch_size=12)
    assert harder["transductive"] != found["transductive"]


def test_evaluate_for_people(run: Path) -> None:
    found = Run.open(run).evaluate(negatives="historical")
    answer = Answer("evaluate", run, "--negatives", "historical")
    assert f"transductive contig {100 * found['transductive']['ap']:.2f}" in answer.words
    assert "historical negatives, batches of 30, new nodes by rule tgn" in answer.words


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--task", "lnk"], "task='lnk'"),
        (["--negatives", "historic"], "Did you mean 'historical'"),
        (["--batch-size", "0"], "--batch-size"),
    ],
)
def test_evaluate_refuses(options: list[str], told: str, run: Path) -> None:
    answer = Answer("evaluate", run, *options)
    assert answer.code == 2
    assert told in re.sub(r"\x1b\[[0-9;]*m", "", answer.err)


@pytest.mark.parametrize(
    "command",
    [
        ["evaluate"],
        ["embed", "--out", "x.npy"],
        ["recommend", "--node", "n1"],
        ["trajectory", "--node", "n1", "--out", "x.parquet"],
        ["resume"],
    ],
    ids=lambda words: words[0],
)
def test_no_such_run(command: list[str], run: Path) -> None:
    answer = Answer(command[0], run.with_name("visit"), *command[1:])
    assert answer.code == 2
    assert "Did you mean 'visits'" in answer.err


# --- embed ---------------------------------------------------------------------------------------------


def test_every_node_in_parquet(run: Path) -> None:
    answer = Answer("embed", run, "--out", "deep/now.parquet")
    assert answer.code == 0, answer.err
    table = pq.read_table("deep/now.parquet")
    opened = Run.open(run)
    assert table.column_names == ["node", "side", "embedding"]
    assert str(table.schema.field("embedding").type) == "fixed_size_list<element: float>[8]"
    assert table["node"].to_pylist() == opened.stream.ids.labels.tolist()
    assert table["side"].to_pylist() == ["src"] * 10 + ["dst"] * 8
    assert np.array_equal(np.array(table["embedding"].to_pylist(), np.float32), opened.embed())
    assert f"{len(table)} embeddings of width 8 are in deep/now.parquet" in answer.err


@pytest.mark.parametrize(
    "at", ["2024-05-04T06:00:00", "2024-05-04T06:00Z", "2024-05-04T08:00+02:00", str(START + 280_800)]
)
def test_a_date_is_a_time(at: str, run: Path) -> None:
    assert Answer("embed", run, "--at", at, "--out", "then.npy").code == 0
    then = np.load("then.npy")
    assert np.array_equal(then, Run.open(run).embed(at=START + 280_800))
    assert not np.array_equal(then, Run.open(run).embed())


def test_some_nodes_in_npy(run: Path, here: Path) -> None:
    (here / "ids.txt").write_text("n3\n\n n14 \nn3\n")
    for given in ("n3,n14,n3", "ids.txt"):
        assert Answer("embed", run, "--nodes", given, "--out", "some.npy").code == 0
        assert np.array_equal(np.load("some.npy"), Run.open(run).embed(["n3", "n14", "n3"]))
        ids = json.loads((here / "some.ids.json").read_text())
        assert ids == {"node": ["n3", "n14", "n3"], "side": ["src", "dst", "src"]}


def test_one_side(run: Path) -> None:
    assert Answer("embed", run, "--side", "dst", "--out", "pages.parquet").code == 0
    table = pq.read_table("pages.parquet")
    assert table["node"].to_pylist() == sorted(f"n{i}" for i in range(7, 15))
    assert set(table["side"].to_pylist()) == {"dst"}
    assert Answer("embed", run, "--nodes", "n8", "--side", "dst", "--out", "one.npy").code == 0
    row = table["node"].to_pylist().index("n8")
    np.testing.assert_allclose(np.load("one.npy")[0], table["embedding"][row].as_py(), rtol=1e-4, atol=1e-6)


def test_ids_that_are_numbers_stay_numbers(here: Path) -> None:
    assert Answer("train", "synthetic:300", "--epochs", 1, "--out", "run", *SET).code == 0
    assert Answer("embed", "run", "--nodes", "3,1", "--out", "x.parquet").code == 0
    assert pq.read_table("x.parquet")["node"].to_pylist() == [3, 1]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--out", "x.csv"], "Unknown kind of file '.csv'"),
        (["--out", "folder.npy"], "is a folder"),
        (["--out", "file/x.npy"], "cannot be written"),
        (["--out", "x.npy", "--nodes", "n99"], "Node 'n99' is not in this stream; its ids look like 'n0'"),
        (["--out", "x.npy", "--nodes", "n8"], "is both a source and a destination"),
        (["--out", "x.npy", "--nodes", ","], "there is no id in it"),
        (["--out", "x.npy", "--side", "left"], "Unknown side 'left'"),
        (["--out", "x.npy", "--at", "noon"], "--at noon: not a time"),
        (["--out", "x.npy", "--at", "nan"], "finite time"),
    ],
)
def test_embed_refuses(options: list[str], told: str, run: Path, here: Path) -> None:
    (here / "folder.npy").mkdir()
    (here / "file").write_text("")
    answer = Answer("embed", run, *options)
    assert answer.code == 2
    assert told in answer.err
    assert {path.name for path in here.iterdir()} == {"folder.npy", "file"}


def test_a_date_means_nothing_to_a_stream_without_dates(here: Path) -> None:
    assert Answer("train", "synthetic:300", "--model", "edgebank", "--out", "run").code == 0
    answer = Answer("recommend", "run", "--node", "1", "--at", "2024-05-01")
    assert answer.code == 2
    assert "do not look like dates; give a number" in answer.err


# --- recommend -----------------------------------------------------------------------------------------


def test_recommend(run: Path) -> None:
    expected = Run.open(run).recommend("n8", at=START + 500_000.5, k=3)
    found = Answer("recommend", run, "--node", "n8", "--at", START + 500_000.5, "-k", 3, "--json").json
    assert found["recommendations"] == [{"node": one.node, "score": one.score} for one in expected]
    assert (found["node"], found["at"]) == ("n8", START + 500_000.5)
    answer = Answer("recommend", run, "--node", "n8", "--at", START + 500_000.5, "-k", 3)
    for rank, one in enumerate(expected, 1):
        assert f"{rank} {one.node} {one.score:.3f}" in answer.words
    assert len(Answer("recommend", run, "--node", "n8", "--json").json["recommendations"]) == 8


def test_recommend_refuses(run: Path) -> None:
    for options, told in ((["--node", "n99"], "its ids look like 'n0'"), (["--node", "n1", "-k", 0], "-k")):
        answer = Answer("recommend", run, *options)
        assert answer.code == 2
        assert told in re.sub(r"\x1b\[[0-9;]*m", "", answer.err)


# --- trajectory ----------------------------------------------------------------------------------------


def test_a_path_in_numbers_and_in_a_figure(run: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    draw = plots.trajectory
    monkeypatch.setattr(plots, "trajectory", lambda *args: drawn.append(args) or draw(*args))
    span = ["--from", "2024-05-02", "--to", "2024-05-08T12:00", "--points", 11]
    answer = Answer(
        "trajectory", run, "--node", "n9", "--side", "dst", *span, "--out", "p.parquet", "--plot", "p.png"
    )
    assert answer.code == 0, answer.err
    times = np.linspace(START + 86_400, START + 7.5 * 86_400, 11)
    opened = Run.open(run)
    expected = opened.trajectory("n9", times, side="dst").embeddings
    table = pq.read_table("p.parquet")
    assert table["t"].to_pylist() == times.tolist()
    assert np.array_equal(np.array(table["embedding"].to_pylist(), np.float32), expected)
    assert (here / "p.png").read_bytes()[:4] == b"\x89PNG"
    ((_, _, node, at, embeddings, title),) = drawn
    assert (node, title) == (opened.stream.ids.find("n9", "dst"), "n9 in visits.csv")
    assert np.array_equal(at, times)
    assert np.array_equal(embeddings, expected)


def test_a_path_is_as_long_as_the_stream(run: Path) -> None:
    assert Answer("trajectory", run, "--node", "n2", "--points", 3, "--out", "p.parquet").code == 0
    t = Run.open(run).stream.t
    assert pq.read_table("p.parquet")["t"].to_pylist() == [t[0], (t[0] + t[-1]) / 2, t[-1]]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([], "Nothing to make"),
        (["--plot", "x.gif"], "Unknown picture format 'gif'"),
        (["--out", "x.csv"], "Unknown kind of file '.csv'"),
        (["--out", "x.parquet", "--from", "2024-05-03", "--to", "2024-05-02"], "must end after it begins"),
        (["--out", "x.parquet", "--points", "1"], "--points"),
    ],
)
def test_trajectory_refuses(options: list[str], told: str, run: Path, here: Path) -> None:
    answer = Answer("trajectory", run, "--node", "n2", *options)
    assert answer.code == 2
    assert told in re.sub(r"\x1b\[[0-9;]*m", "", answer.err)
    assert list(here.iterdir()) == []


# --- models --------------------------------------------------------------------------------------------


def test_models_are_listed() -> None:
    found = Answer("models", "--json").json
    assert [model["name"] for model in found] == list(MODELS)
    assert all(model["description"] for model in found)
    assert {"name": "edgebank", "learns": False}.items() <= found[list(MODELS).index("edgebank")].items()
    text = Answer("models").out
    for model in found:
        assert model["description"] in " ".join(text.split())


def test_the_options_of_a_model() -> None:
    found = Answer("models", "contig", "--json").json
    options = {option["name"]: option for option in found["options"]}
    assert options["dim"]["default"] == 172
    assert options["scope"]["type"] == "pair | batch | all"
    assert {option["name"] for option in found["training"]} >= {"epochs", "lr", "rule"}
    answer = Answer("models", "contig")
    assert "dim 172 width of embeddings; the paper's (int)" in answer.words
    assert "without none parts left out" in answer.words
    for option in found["options"] + found["training"]:
        assert option["help"]


def test_no_such_model() -> None:
    answer = Answer("models", "edgbank")
    assert answer.code == 2
    assert "Did you mean 'edgebank'" in answer.err


@pytest.mark.parametrize(
    "command", ["train", "resume", "evaluate", "embed", "recommend", "trajectory", "models"]
)
def test_every_command_has_help_and_examples(command: str) -> None:
    answer = Answer(command, "--help")
    assert answer.code == 0
    assert "Examples" in answer.out
    assert answer.out.count(f"contig {command}") >= 2
