"""``contig recipes``, and commands that take a recipe by its name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.commands import SET, Answer

from contig.experiments.recipe_files import packaged_folder, packaged_recipes
from contig.runs.run import Run

pytestmark = pytest.mark.usefixtures("here", "fast_training")


def test_the_recipes_of_the_package_are_listed() -> None:
    assert set(json.loads(Answer("recipes", "--json").out)) == set(packaged_recipes())
    assert "pair/collegemsg" in Answer("recipes").out


def test_a_recipe_is_printed_as_its_file() -> None:
    assert Answer("recipes", "mooc-tgn").out == (packaged_folder() / "mooc-tgn.json").read_text("utf-8")
    assert "Did you mean 'mooc-tgn'" in Answer("recipes", "mooc-tgm").refusal


def test_the_schema_is_json() -> None:
    assert json.loads(Answer("recipes", "--schema").out)["required"] == ["data"]
    assert "not both" in Answer("recipes", "mooc", "--schema").refusal


def test_training_takes_columns_from_a_recipe(here: Path) -> None:
    rows = [f"{i % 7};x{i % 5};{1 + i % 12}/{1 + i % 28}/20{10 + i // 12}" for i in range(120)]
    (here / "log.csv").write_text("\n".join(["who;what;day", *rows]))
    (here / "log.toml").write_text(
        'data = "log.csv"\nmodel = "popularity"\n[reading]\nsrc = "who"\ndst = "what"\nt = "day"\n'
        'date_format = "%m/%d/%Y"\n'
    )
    answer = Answer("train", "--config", "log.toml", "--out", "run", "--no-heuristics")
    assert answer.code == 0, answer.err
    assert len(Run.open("run").stream) == 120
    answer = Answer("train", "--config", "log.toml", "--dst", "nothing", "--out", "other")
    assert "no column 'nothing'" in answer.refusal  # the command line overrides the recipe


def test_a_name_is_as_good_as_a_file(here: Path) -> None:
    answer = Answer("train", "synthetic:300", "--config", "collegemsg", "--epochs", 1, "--out", "run", *SET)
    assert answer.code == 0, answer.err
    assert Run.open("run").config.model == "contig"
