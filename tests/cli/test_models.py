"""The command ``models``."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest
from support.commands import Answer

from contig import registry
from contig.models import MODELS

pytestmark = pytest.mark.usefixtures("here")


def test_models_are_listed() -> None:
    found = Answer("models", "--json").json
    assert [model["name"] for model in found] == list(MODELS)
    assert {model["name"] for model in found if not model["learns"]} == {
        "edgebank",
        "popularity",
        "recency",
        "transition",
    }
    text = " ".join(Answer("models").out.split())
    for model in found:
        name, _, rest = model["description"].partition(": ")
        assert name.lower() == model["name"]
        assert rest.endswith(".")
        assert model["description"] in text
    assert text.count("(heuristic: nothing to train)") == 4


def test_the_options_of_a_model() -> None:
    found = Answer("models", "contig", "--json").json
    options = {option["name"]: option for option in found["options"]}
    assert options["dim"]["default"] == 172
    assert options["scope"]["type"] == "auto | near | pair | batch | all"
    assert {option["name"] for option in found["training"]} >= {"epochs", "lr", "holdout"}
    answer = Answer("models", "contig")
    assert "dim 172 width of embeddings; the paper's (int, at least 1" in answer.words
    assert "without none parts to leave out" in answer.words
    for option in found["options"] + found["training"]:
        assert option["help"]


def test_a_model_without_options() -> None:
    assert Answer("models", "recency", "--json").json["options"] == []
    answer = Answer("models", "recency")
    assert "recency has no options" in answer.words
    assert "Option Default" not in answer.words
    assert "Test Default Description" in answer.words


def test_a_heuristic_has_no_options_of_training() -> None:
    assert "lr" in {one["name"] for one in Answer("models", "tgn", "--json").json["training"]}
    found = {one["name"] for one in Answer("models", "edgebank", "--json").json["training"]}
    assert found == {"batch_size", "final", "holdout", "split", "split_seed"}
    assert "learning rate" not in Answer("models", "edgebank").words


def test_an_unknown_model() -> None:
    answer = Answer("models", "edgbank")
    assert answer.code == 2
    assert "Did you mean 'edgebank'" in answer.err


def test_a_broken_package_does_not_hide_the_other_models(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = EntryPoint("broken", "no.such.module:Model", "contig.models")
    monkeypatch.setattr(registry, "entry_points", lambda group: [broken])
    answer = Answer("models", "--json")
    assert [model["name"] for model in answer.json] == list(MODELS)
    assert "note: The model 'broken' cannot be loaded" in answer.err
