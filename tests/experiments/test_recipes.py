"""Recipes: the content of their files, and names that are never ambiguous."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.problems import stream_of

from contig.data.datasets import open_stream
from contig.data.events import EventStream
from contig.data.synthetic import synthetic
from contig.errors import ConfigError
from contig.experiments.identity import run_key
from contig.experiments.recipes import (
    PLAIN,
    Recipe,
    find_recipe,
    heuristics_for,
    identified,
    read_recipes,
    settings_on,
)
from contig.reproduction.paper import published_settings

CONFIGS = Path(__file__).resolve().parents[2] / "configs"


def write(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content))
    return path


def test_variants_replace_settings_of_the_recipe(tmp_path: Path) -> None:
    content = {
        "data": "here/mooc.csv",
        "model": "contig",
        "settings": {"lr": 0.001, "dim": 8},
        "variants": {"no norm": {"state_norm": False}, "wide": {"dim": 16}},
    }
    recipes = read_recipes(write(tmp_path / "mooc.json", content))
    assert [(r.variant, r.settings) for r in recipes] == [
        (PLAIN, {"lr": 0.001, "dim": 8}),
        ("no norm", {"lr": 0.001, "dim": 8, "state_norm": False}),
        ("wide", {"lr": 0.001, "dim": 16}),
    ]
    assert [r.name for r in recipes] == ["mooc-contig", "mooc-contig-no-norm", "mooc-contig-wide"]


def test_one_file_compares_several_models(tmp_path: Path) -> None:
    models = {"tgn": {"neighbors": 3}, "tgat": {"lr": 0.2}}
    content = {"data": "mooc", "settings": {"lr": 0.1, "epochs": 4}, "models": models}
    assert [(r.name, r.model, r.settings) for r in read_recipes(write(tmp_path / "mooc.json", content))] == [
        ("mooc-tgn", "tgn", {"lr": 0.1, "epochs": 4, "neighbors": 3}),
        ("mooc-tgat", "tgat", {"lr": 0.2, "epochs": 4}),
    ]


def test_two_files_about_the_same_data_have_different_names(tmp_path: Path) -> None:
    content = {"data": "mooc", "settings": {"epochs": 50}}
    [one] = read_recipes(write(tmp_path / "mooc.json", content))
    [other] = read_recipes(write(tmp_path / "departures.json", content | {"settings": {"epochs": 20}}))
    assert (one.name, other.name) == ("mooc-contig-pair", "departures-mooc-contig-pair")


def test_the_recipe_of_a_model_on_a_dataset(tmp_path: Path) -> None:
    write(tmp_path / "mooc.json", {"data": "mooc", "settings": {"dim": 1}})
    write(tmp_path / "mooc-tgn.json", {"data": "mooc", "model": "tgn", "settings": {"dim": 2}})
    write(tmp_path / "mooc-jodie.json", {"data": "mooc", "model": "tgat", "settings": {"dim": 3}})
    found = {model: find_recipe(tmp_path, "mooc", model) for model in ("contig-pair", "tgn", "jodie")}
    assert {model: one and one.settings["dim"] for model, one in found.items()} == {
        "contig-pair": 1,
        "tgn": 2,
        "jodie": None,
    }


def test_fingerprints_are_those_of_the_events() -> None:
    recipes = [Recipe("synthetic:70", "tgn"), Recipe("synthetic:80"), Recipe("synthetic:70", "tgn")]
    found = identified(recipes)
    expected = [(name, open_stream(name).fingerprint()) for name in ("synthetic:70", "synthetic:80")]
    assert [(one.data, one.fingerprint) for one in found] == expected


def test_recipes_of_one_name_are_told_apart_by_their_settings() -> None:
    variants = [Recipe("synthetic:70", "tgn", {"batch_size": size, "lr": 0.1}) for size in (20, 30)]
    found = identified([*variants, *heuristics_for(variants), Recipe("synthetic:70", "tgn", {"lr": 0.1})])
    tgn = [one for one in found if one.model == "tgn"]
    assert [one.variant for one in tgn] == ["batch_size=20", "batch_size=30", PLAIN]
    recency = [one for one in found if one.model == "recency"]
    assert [(one.variant, one.settings["batch_size"]) for one in recency] == [
        ("batch_size=20", 20),
        ("batch_size=30", 30),
    ]
    assert len({one.name for one in found}) == len(found)


def test_equal_file_names_in_two_folders_are_two_recipes(tmp_path: Path) -> None:
    found = []
    for folder, times in (("here", "1 2 3"), ("there", "4 5 7")):
        (tmp_path / folder).mkdir()
        rows = "".join(f"{i},{i + 10},{t}\n" for i, t in enumerate(times.split()))
        (tmp_path / folder / "log.csv").write_text("src,dst,t\n" + rows)
        found.append(Recipe(str(tmp_path / folder / "log.csv"), "tgn"))
    named = identified([*found, *found])
    assert [one.variant for one in named] == [one.data for one in found]
    assert len({one.name for one in named}) == 2


def test_the_default_holdout_of_own_data_is_none_however_it_is_written() -> None:
    settings: list[dict[str, Any]] = [{}, {"holdout": "auto"}, {"holdout": "none"}, {"holdout": "tgn"}]
    own = synthetic(30)

    def key(stream: EventStream, given: dict[str, Any]) -> str:
        return run_key(Recipe("log.csv", "tgn", settings_on(stream, "tgn", given), fingerprint="x"), 0)

    keys = [key(replace(own, benchmark=False), given) for given in settings]
    assert keys[0] == keys[1] == keys[2] != keys[3]
    benchmark = [key(replace(own, benchmark=True), given) for given in settings]
    assert benchmark[0] == benchmark[1] == benchmark[3] != benchmark[2]


def test_what_a_model_chooses_by_the_stream_is_a_setting() -> None:
    hub = stream_of([(1 + i % 200, 0, i) for i in range(400)], 201)
    assert settings_on(hub, "contig", {"lr": 0.1}) == {"lr": 0.1, "holdout": "none", "scope": "all"}
    assert settings_on(hub, "contig", {"scope": "pair"}) == {"scope": "pair", "holdout": "none"}
    assert settings_on(hub, "tgn", {}) == {"holdout": "none"}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ([], "a recipe must be an object"),
        ({"model": "contig"}, "the field data is missing"),
        ({"data": 3}, "the field data must be text"),
        ({"data": "mooc", "model": 5}, "the field model must be text"),
        ({"data": "mooc", "modle": "tgn"}, "Unknown field 'modle'. Did you mean 'model'"),
        ({"data": "mooc", "settings": [1]}, "the field settings must be an object"),
        ({"data": "mooc", "variants": ["wide"]}, "the field variants must be an object"),
        ({"data": "mooc", "models": {}}, "the field models names no model"),
        ({"data": "mooc", "models": {"tgn": 9}}, "the model tgn must be an object"),
        (
            {"data": "mooc", "models": {"tgn": {}}, "model": "tgn"},
            "the field models excludes the field model",
        ),
        ({"data": "mooc", "variants": {"wide": 9}}, "the variant wide must be an object"),
    ],
)
def test_a_file_that_is_not_a_recipe(content: Any, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"odd\.json is not a recipe .{reason}.*write JSON such as"):
        read_recipes(write(tmp_path / "odd.json", content))


def test_a_file_that_cannot_be_read_as_text(tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_bytes(b"\xff\xfe{")
    for path in (tmp_path, tmp_path / "odd.json"):
        with pytest.raises(ConfigError, match="is not a recipe"):
            read_recipes(path)


def test_a_wrong_setting_is_reported_with_its_file_and_variant(tmp_path: Path) -> None:
    content = {"data": "mooc", "model": "tgn", "variants": {"wide": {"dimm": 9}}}
    base, wide = read_recipes(write(tmp_path / "mine.json", content))
    assert base.config(0).model == "tgn"
    with pytest.raises(
        ConfigError, match="mine, variant 'wide': Unknown option 'dimm' of tgn and its training"
    ):
        wide.config(0)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.json: no such file"):
        read_recipes(tmp_path / "none.json")


# --- the project's own recipes -----------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(CONFIGS.rglob("*.json")), ids=str)
def test_recipes_have_known_options_and_values(path: Path) -> None:
    for recipe in read_recipes(path):
        config = recipe.config(seed=7)  # refuses unknown options and wrong values
        assert (config.model, config.train.seed) == (recipe.model, 7)


def options(recipe: Recipe) -> dict[str, Any]:
    config = recipe.config(0).as_dict()
    return {**config["options"], **config["train"]}


def test_the_paper_becomes_the_default_one_option_at_a_time() -> None:
    steps = [options(recipe) for recipe in read_recipes(CONFIGS / "paper-to-default.json")]
    changed = [
        {key for key in before if before[key] != after[key]} for before, after in itertools.pairwise(steps)
    ]
    assert all(len(keys) == 1 for keys in changed), changed
    assert len(changed) == 9
    [default] = read_recipes(CONFIGS / "collegemsg.json")
    assert steps[-1] == {**options(default), "scope": "near"}  # what auto chooses on collegemsg


def test_the_paper_as_written_has_every_setting_that_the_paper_states() -> None:
    first = options(read_recipes(CONFIGS / "paper-to-default.json")[0])
    stated = published_settings()
    assert {key: first[key] for key in stated} == stated
    assert first["clip"] > 1e20  # never clips


def test_no_recipe_makes_activity_part_of_the_papers_model() -> None:
    for path in CONFIGS.rglob("*.json"):
        base = read_recipes(path)[0]
        assert not base.settings.get("activity"), path
    assert [r.variant for r in read_recipes(CONFIGS / "mooc.json")[1:] if options(r)["activity"]] == [
        "activity"
    ]


def test_a_recipe_says_how_its_data_is_read(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("who,what,when,price\na,x,1,0.5\nb,y,2,0.7\na,y,3,0.1\n")
    content = {"data": str(tmp_path / "log.csv"), "reading": {"src": "who", "dst": "what", "t": "when"}}
    priced = {**content, "reading": {**content["reading"], "features": ["price"]}}
    for name, one in (("plain", content), ("priced", priced)):
        (tmp_path / f"{name}.json").write_text(json.dumps(one))
    found = identified([read_recipes(tmp_path / f"{name}.json")[0] for name in ("plain", "priced")])
    widths = [open_stream(one.data, one.reading).edge_width for one in found]
    assert widths[1] == 1
    assert len({one.fingerprint for one in found}) == len(set(widths)) == 2
    assert heuristics_for(found)[0].reading == found[0].reading
    (tmp_path / "bad.json").write_text(json.dumps({**content, "reading": {"source": "who"}}))
    with pytest.raises(ConfigError, match="source"):
        read_recipes(tmp_path / "bad.json")


# --- files and names ---------------------------------------------------------------------------------


def test_toml_and_json_are_the_same_recipe(tmp_path: Path) -> None:
    content = {
        "data": "visits.csv",
        "model": "tgn",
        "settings": {"lr": 3e-4, "epochs": 20, "state": "x"},
        "reading": {"src": "who", "features": ["price", 4], "date_format": "%m/%d/%Y"},
        "variants": {"no norm": {"lr": 0.1}},
    }
    (tmp_path / "visits.toml").write_text(
        """
        data = "visits.csv"
        model = "tgn"
        [settings]
        lr = 3e-4
        epochs = 20
        state = "x"
        [reading]
        src = "who"
        features = ["price", 4]
        date_format = "%m/%d/%Y"
        [variants."no norm"]
        lr = 0.1
        """
    )
    assert read_recipes(tmp_path / "visits.toml") == read_recipes(write(tmp_path / "visits.json", content))
    (tmp_path / "bad.toml").write_text("data = \nmodel")
    with pytest.raises(ConfigError, match=r"bad\.toml is not a recipe"):
        read_recipes(tmp_path / "bad.toml")


def test_recipes_of_the_package_have_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_recipes("pair/collegemsg") == read_recipes(CONFIGS / "pair" / "collegemsg.json")
    with pytest.raises(ConfigError, match=r"Unknown recipe 'colegemsg'\. Did you mean 'collegemsg'"):
        read_recipes("colegemsg")


def test_data_next_to_a_recipe_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    there = tmp_path / "there"
    there.mkdir()
    (there / "log.csv").write_text("src,dst,t\n1,2,3\n")
    recipe = write(there / "one.json", {"data": "log.csv"})
    assert read_recipes(recipe)[0].data == str(there / "log.csv")
    (tmp_path / "log.csv").write_text("src,dst,t\n4,5,6\n")
    assert read_recipes(recipe)[0].data == "log.csv"  # the working directory comes first
