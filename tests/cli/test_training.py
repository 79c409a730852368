"""``contig train`` and ``contig resume``: the numbers of the library, as JSON and as tables."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest
import torch
from support.commands import COLUMNS, SET, Answer
from support.trained import TINY, without_costs

from contig.data.readers import read_events
from contig.runs.folder import RunFolder
from contig.runs.run import Run
from contig.training.fit import fit
from contig.training.session import Session

pytestmark = pytest.mark.usefixtures("fast_training", "here")


# --- train ---------------------------------------------------------------------------------------------


def test_train_gives_the_metrics_of_the_library(visits: Path, run: Path, here: Path) -> None:
    stream = read_events(visits, src="who", dst="page", t="when", bipartite=True)
    expected = fit(stream, out=here / "run", epochs=2, seed=4, show=False, **TINY)
    assert without_costs(RunFolder(run).metrics().as_dict()) == without_costs(expected.metrics.as_dict())


def test_train_json_is_the_metrics(visits: Path) -> None:
    command = ["train", visits, *COLUMNS, "--bipartite", "--epochs", 1, "--seed", 9, *SET, "--json"]
    answer = Answer(*command)
    assert answer.json["run"] == "runs/visits-contig-pair-9"  # the default folder
    printed = {
        key: value for key, value in answer.json.items() if key not in ("run", "heuristics", "loses_to")
    }
    assert printed == RunFolder("runs/visits-contig-pair-9").metrics().as_dict()
    stream = read_events(visits, src="who", dst="page", t="when", bipartite=True)
    heuristic = fit(stream, "edgebank", out="heuristic", show=False, batch_size=TINY["batch_size"])
    assert set(answer.json["heuristics"]) == {"recency", "edgebank", "popularity", "transition"}
    for selection in ("transductive", "inductive", "inductive_dyglib", "protocol"):
        found = answer.json["heuristics"]["edgebank"][selection]
        assert found == heuristic.metrics.as_dict()[selection]
    assert "epoch   1  loss" in answer.err
    assert [row["epoch"] for row in answer.json["epochs"]] == [1]
    assert (
        "note: training on 196 events, validation on 42, test on 42 (70/15/15 by time quantile); no node is "
        "hidden from training"
    ) in answer.err


def test_train_table(visits: Path) -> None:
    settings = ["--epochs", 1, "--out", "mine", *SET, "--set", "holdout=tgn"]
    answer = Answer("train", visits, *COLUMNS, "--bipartite", *settings)
    metrics = RunFolder("mine").metrics().as_dict()
    assert answer.code == 0
    rows = {"transductive": "transductive", "ind. ours": "inductive"}
    for selection, key in {**rows, "ind. dyglib": "inductive_dyglib"}.items():
        m = metrics[key]
        cells = [f"{100 * m[key]:.2f}" for key in ("ap", "auc", "ap_overall", "auc_overall")]
        assert " ".join([selection, "contig-pair", *cells, f"{m['events']}"]) in answer.words
        assert re.search(rf"{selection} edgebank( \d+\.\d\d){{4}} {m['events']}", answer.words)
    assert "best epoch: 1 of 1" in answer.words
    assert "run: mine" in answer.words
    alone = Answer("train", visits, *COLUMNS, "--bipartite", *SET, "--epochs", 1, "--no-heuristics")
    assert "edgebank" not in alone.words
    assert "loses to" not in alone.words
    assert re.search(
        r"\d events/s in training \(the first epoch\), [\d,]+ events/s in the test", answer.words
    )


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


def test_options_override_the_recipe(visits: Path, here: Path) -> None:
    settings = {**TINY, "epochs": 3, "seed": 5, "holdout": "paper", "dropout": 0.2}
    recipe = {"data": str(visits), "settings": settings}
    (here / "recipe.json").write_text(json.dumps(recipe))
    options = ["--epochs", 1, "--set", "dropout=0.3", "--out", "run"]
    assert Answer("train", "--config", "recipe.json", *COLUMNS, *options).code == 0
    config = RunFolder("run").config()
    assert (config.model, config.train.seed, config.train.holdout) == ("contig-pair", 5, "paper")
    assert (config.train.epochs, config.model_options.dropout) == (1, 0.3)  # from the command line
    assert config.model_options.dim == TINY["dim"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "is not a recipe"),
        ('{"data": "x.csv", "settings": [1]}', "is not a recipe"),
        ('{"model": "contig"}', "is not a recipe"),
        ("{", "is not a recipe"),
    ],
)
def test_broken_recipes_are_refused(text: str, message: str, here: Path) -> None:
    (here / "recipe.json").write_text(text)
    answer = Answer("train", "--config", "recipe.json")
    assert answer.code == 2
    assert message in answer.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "contg"], "Unknown model 'contg'. Did you mean 'contig'"),
        (["--set", "epoch=8"], "Did you mean 'epochs'"),
        (["--set", "dim"], "is not of the form key=value"),
        (["--set", "lr=fast"], "lr='fast' is not a number"),
        (["--device", "abacus"], "device='abacus'"),
        (["--epochs", "0"], "epochs=0"),
        (["--config", "gone.json"], "gone.json: no such file"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_written(
    options: list[str], message: str, visits: Path, here: Path
) -> None:
    answer = Answer("train", visits, *COLUMNS, *options)
    assert answer.code == 2
    assert message in answer.err
    assert list(here.iterdir()) == []


def test_train_needs_data() -> None:
    answer = Answer("train")
    assert answer.code == 2
    assert "Nothing to train on" in answer.err


def test_a_run_is_not_overwritten(visits: Path, run: Path) -> None:
    answer = Answer("train", visits, *COLUMNS, "--out", run)
    assert answer.code == 2
    assert "already holds a run" in answer.err
    assert f"contig resume {run}" in answer.err
    assert "--overwrite" in answer.err


def test_a_run_is_overwritten_on_request(here: Path) -> None:
    command = ["train", "synthetic:300", "--model", "edgebank", "--out", "run"]
    assert Answer(*command).code == 0
    (here / "run" / "evaluations").mkdir()
    answer = Answer(*command, "--set", "batch_size=50", "--overwrite", "--json")
    assert answer.json["batch_size"] == 50
    assert not (here / "run" / "evaluations").exists()


def test_a_run_below_a_file_is_refused(here: Path) -> None:
    (here / "file").write_text("")
    answer = Answer("train", "synthetic:300", "--out", "file/run")
    assert "file is a file; choose a folder" in answer.refusal


# --- resume --------------------------------------------------------------------------------------------


def test_ctrl_c_says_how_to_resume(visits: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert (
        answer.err.splitlines()[-1] == "error: interrupted; nothing is lost. To continue: contig resume run"
    )
    early = Answer("evaluate", "run", "--json")
    assert early.json["transductive"]["events"] == RunFolder(run).metrics().transductive.events
    assert "note: run: the training is not finished; answers come from its best epoch so far" in early.err
    for command in (["recommend"], ["embed", "--out", "x.npy"], ["trajectory", "--out", "x.parquet"]):
        node = ["--nodes", "n1"] if command[0] == "embed" else ["--node", "n1"]
        assert "its best epoch so far, epoch 1" in Answer(command[0], "run", *node, *command[1:]).err
    resumed = Answer("resume", "run", "--json", "--no-heuristics")
    assert without_costs(resumed.json) == {"run": "run", **without_costs(RunFolder(run).metrics().as_dict())}


def test_ctrl_c_before_the_run_exists(visits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(RunFolder, "create", interrupt)
    answer = Answer("train", visits, *COLUMNS, "--out", "run", *SET)
    assert answer.code == 130
    assert answer.err.endswith("error: interrupted\n")


def test_resume_trains_for_longer(visits: Path, run: Path) -> None:
    command = ["train", visits, *COLUMNS, "--bipartite", "--out", "run", "--epochs", 1, "--seed", 4, *SET]
    assert Answer(*command).code == 0
    assert without_costs(Answer("resume", "run", "--epochs", 2, "--json", "--no-heuristics").json) == {
        "run": "run",
        **without_costs(RunFolder(run).metrics().as_dict()),
    }


def test_resuming_a_finished_run_prints_its_result(run: Path) -> None:
    answer = Answer("resume", run)
    metrics = RunFolder(run).metrics()
    best = metrics.best_epoch
    assert f"is finished after 2 epochs (the limit); the best was epoch {best}." in answer.words
    assert f"To train longer: contig resume {run} --epochs 4" in answer.err
    assert f"transductive contig-pair {100 * metrics.transductive.ap:.2f}" in answer.words
    assert f"best epoch: {best} of 2" in answer.words


def test_quiet_prints_the_result_alone(here: Path) -> None:
    arguments = ("train", "synthetic:300", "--epochs", 1, *SET)
    loud = Answer(*arguments, "--out", "loud")
    assert "note: " in loud.err
    silent = Answer(*arguments, "--out", "silent", "--quiet")
    assert (silent.code, silent.err) == (0, "")
    assert "run: silent" in silent.out
    assert Answer("train", "nothing.csv", "--quiet").refusal  # errors are printed
    assert "note: " in Answer(*arguments, "--out", "again").err  # the next command is not quiet


def test_the_default_folder_does_not_collide(here: Path) -> None:
    for folder in ("synthetic-300-popularity-0", "synthetic-300-popularity-0-2"):
        answer = Answer("train", "synthetic:300", "--model", "popularity", "--no-heuristics")
        assert answer.code == 0, answer.err
        assert f"run: runs/{folder}\n" in answer.out
    answer = Answer("train", "synthetic:300", "--model", "popularity", "--no-heuristics", "--force")
    assert "run: runs/synthetic-300-popularity-0\n" in answer.out


def test_resume_takes_settings(here: Path) -> None:
    assert Answer("train", "synthetic:300", "--epochs", 1, "--out", "run", *SET).code == 0
    assert Answer("resume", "run", "--set", "epochs=2", "--set", "patience=9").code == 0
    train = Run.open("run").config.train
    assert (train.epochs, train.patience) == (2, 9)
    assert "lr cannot change when a run is resumed" in Answer("resume", "run", "--set", "lr=1").refusal
