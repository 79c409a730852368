from __future__ import annotations

import pytest
from support.commands import Answer

from contig.models import MODELS

pytestmark = pytest.mark.usefixtures("here")


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
    assert {option["name"] for option in found["training"]} >= {"epochs", "lr", "holdout"}
    answer = Answer("models", "contig")
    assert "dim 172 width of embeddings; the paper's (int)" in answer.words
    assert "without none parts left out" in answer.words
    for option in found["options"] + found["training"]:
        assert option["help"]


def test_a_model_without_options_says_so() -> None:
    assert Answer("models", "recency", "--json").json["options"] == []
    answer = Answer("models", "recency")
    assert "recency has no options" in answer.words
    assert "Option default" not in answer.words
    assert "epochs 50 passes over the training events" in answer.words


def test_no_such_model() -> None:
    answer = Answer("models", "edgbank")
    assert answer.code == 2
    assert "Did you mean 'edgebank'" in answer.err
