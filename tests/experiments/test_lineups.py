"""Lineups: which models are compared, and which settings apply to each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from contig.data.events import EventStream
from contig.data.read_options import ReadOptions
from contig.errors import ConfigError
from contig.experiments.lineups import choose_models, lineup, span_of_test
from contig.models import MODELS, model_class

HEURISTICS = ["edgebank", "popularity", "recency", "transition"]


def small_stream() -> EventStream:
    """40 events, one every 3 seconds: the last six are the test."""
    stream = EventStream.from_arrays(
        [k % 5 for k in range(40)], [7 + k % 3 for k in range(40)], range(0, 120, 3)
    )
    return replace(stream, benchmark=True)


def settings_of(settings: dict[str, str], *models: str) -> dict[tuple[str, str], dict[str, object]]:
    recipes = lineup("mooc", small_stream(), models, settings)
    return {(recipe.model, recipe.variant): recipe.settings for recipe in recipes}


def test_heuristics_are_added_last() -> None:
    assert choose_models("tgn") == ["tgn", *HEURISTICS]
    assert choose_models("recency, jodie,tgn") == ["jodie", "tgn", "recency", *HEURISTICS[:2], HEURISTICS[3]]
    assert choose_models("tgn", heuristics=False) == ["tgn"]
    assert choose_models("edgebank,tgn", heuristics=False) == ["tgn", "edgebank"]


def test_all_models() -> None:
    learning = [name for name in MODELS if model_class(name).learns]
    assert choose_models("all") == [*learning, *HEURISTICS]
    assert choose_models("all", heuristics=False) == learning


@pytest.mark.parametrize(("names", "message"), [(" ,", "is empty"), ("tng", "Did you mean 'tgn'")])
def test_wrong_model_names(names: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        choose_models(names)


def test_a_setting_applies_to_the_models_that_have_it() -> None:
    given = {"dim": "6", "epochs": "2", "batch_size": "30", "tgn.lr": "0.01"}
    found = settings_of(given, "tgn", "jodie", "recency")
    assert found["jodie", "as given"] == {"dim": "6", "epochs": "2", "batch_size": "30"}
    assert found["tgn", "as given"] == {"dim": "6", "epochs": "2", "batch_size": "30", "lr": "0.01"}
    assert found["recency", "as given"] == {"batch_size": "30"}  # it is evaluated in batches, but not trained


def test_a_model_s_own_setting_takes_precedence() -> None:
    found = settings_of({"tgn.dim": "4", "dim": "6"}, "tgn", "jodie")
    assert (found["tgn", "as given"]["dim"], found["jodie", "as given"]["dim"]) == ("4", "6")


def test_a_heuristic_with_a_window_has_two_recipes() -> None:
    assert span_of_test(small_stream()) == 15.0
    found = settings_of({}, "edgebank", "recency")
    assert found == {
        ("edgebank", "as given"): {},
        ("edgebank", "window"): {"window": 15.0},
        ("recency", "as given"): {},
    }
    assert settings_of({"edgebank.window": "9"}, "edgebank") == {("edgebank", "as given"): {"window": "9"}}


def test_no_window_without_a_test_period() -> None:
    stream = EventStream.from_arrays([0, 1, 2, 3], [7, 8, 7, 8], [5, 5, 5, 5])
    assert [recipe.variant for recipe in lineup("mooc", stream, ["edgebank"], {})] == ["as given"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dimm": "3"}, "--set dimm: .*Did you mean 'dim'"),
        ({"jodi.dim": "3"}, "--set jodi.dim: .*Did you mean 'jodie'"),
        ({"tgn.dim": "3"}, "Unknown model 'tgn' in this comparison"),
        ({"jodie.dimm": "3"}, "Did you mean 'dim'"),
        ({"dim": "three"}, "dim='three'"),
        ({"seed": "3"}, "how many with --seeds"),
    ],
)
def test_wrong_settings(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        lineup("mooc", small_stream(), ["jodie", "recency"], settings)


def test_recipes_have_the_fingerprint_of_their_events() -> None:
    stream, reading = small_stream(), ReadOptions(src="who")
    [recipe] = lineup("my.csv", stream, ["jodie"], {}, reading)
    assert (recipe.data, recipe.reading, recipe.fingerprint) == ("my.csv", reading, stream.fingerprint())
