"""Lineups: who stands beside whom, and which settings are whose."""

from __future__ import annotations

import pytest

from contig.data.events import EventStream
from contig.errors import ConfigError
from contig.experiments.lineups import chosen_models, lineup, span_of_test
from contig.models import MODELS, model_class

HOLDOUTS = ["edgebank", "popularity", "recency"]


def some_stream() -> EventStream:
    """40 events, one every 3 seconds: the last six are the test."""
    return EventStream.from_arrays(
        [k % 5 for k in range(40)], [7 + k % 3 for k in range(40)], range(0, 120, 3)
    )


def settings_of(given: dict[str, str], *models: str) -> dict[tuple[str, str], dict[str, object]]:
    recipes = lineup("mooc", some_stream(), models, given)
    return {(recipe.model, recipe.variant): recipe.settings for recipe in recipes}


def test_rules_stand_last_and_are_always_there() -> None:
    assert chosen_models("tgn") == ["tgn", *HOLDOUTS]
    assert chosen_models("recency, jodie,tgn") == ["jodie", "tgn", "recency", *HOLDOUTS[:2]]
    assert chosen_models("tgn", rules=False) == ["tgn"]
    assert chosen_models("edgebank,tgn", rules=False) == ["tgn", "edgebank"]
    learning = [name for name in MODELS if model_class(name).learns]
    assert chosen_models("all") == [*learning, *HOLDOUTS]
    assert chosen_models("all", rules=False) == learning


@pytest.mark.parametrize(("names", "told"), [("", "names none"), ("tng", "Did you mean 'tgn'")])
def test_models_that_are_none(names: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        chosen_models(names)


def test_a_setting_is_of_those_who_have_it() -> None:
    given = {"dim": "6", "epochs": "2", "batch_size": "30", "tgn.lr": "0.01"}
    found = settings_of(given, "tgn", "jodie", "recency")
    assert found["jodie", "as given"] == {"dim": "6", "epochs": "2", "batch_size": "30"}
    assert found["tgn", "as given"] == {"dim": "6", "epochs": "2", "batch_size": "30", "lr": "0.01"}
    assert found["recency", "as given"] == {"batch_size": "30"}  # what it is measured by, no more


def test_one_s_own_setting_wins() -> None:
    found = settings_of({"tgn.dim": "4", "dim": "6"}, "tgn", "jodie")
    assert (found["tgn", "as given"]["dim"], found["jodie", "as given"]["dim"]) == ("4", "6")


def test_a_rule_that_can_forget_has_two_memories() -> None:
    assert span_of_test(some_stream()) == 15.0
    found = settings_of({}, "edgebank", "recency")
    assert found == {
        ("edgebank", "as given"): {},
        ("edgebank", "window"): {"window": 15.0},
        ("recency", "as given"): {},
    }
    assert settings_of({"edgebank.window": "9"}, "edgebank") == {("edgebank", "as given"): {"window": "9"}}


def test_a_test_of_one_moment_has_no_window() -> None:
    stream = EventStream.from_arrays([0, 1, 2, 3], [7, 8, 7, 8], [5, 5, 5, 5])
    assert [recipe.variant for recipe in lineup("mooc", stream, ["edgebank"], {})] == ["as given"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"dimm": "3"}, "--set dimm: .*Did you mean 'dim'"),
        ({"jodi.dim": "3"}, "--set jodi.dim: .*Did you mean 'jodie'"),
        ({"tgn.dim": "3"}, "Unknown model in this comparison 'tgn'"),
        ({"jodie.dimm": "3"}, "Did you mean 'dim'"),
        ({"dim": "three"}, "dim='three' is not a whole number"),
        ({"seed": "3"}, "--seeds how many"),
    ],
)
def test_settings_that_are_none(given: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        lineup("mooc", some_stream(), ["jodie", "recency"], given)


def test_recipes_know_their_events() -> None:
    stream = some_stream()
    [recipe] = lineup("my.csv", stream, ["jodie"], {}, ("--src", "who"))
    assert (recipe.data, recipe.reading, recipe.fingerprint) == (
        "my.csv",
        ("--src", "who"),
        stream.fingerprint(),
    )
