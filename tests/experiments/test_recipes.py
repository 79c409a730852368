"""Recipes: what a file says, and names under which nothing is mistaken for anything else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contig.errors import ConfigError
from contig.experiments.recipes import PLAIN, read_recipes


def written(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content))
    return path


def test_variants_change_the_recipe_s_own_settings(tmp_path: Path) -> None:
    content = {
        "data": "here/mooc.csv",
        "model": "contig",
        "settings": {"lr": 0.001, "dim": 8},
        "variants": {"no norm": {"state_norm": False}, "wide": {"dim": 16}},
    }
    recipes = read_recipes(written(tmp_path / "mooc.json", content))
    assert [(r.variant, r.settings) for r in recipes] == [
        (PLAIN, {"lr": 0.001, "dim": 8}),
        ("no norm", {"lr": 0.001, "dim": 8, "state_norm": False}),
        ("wide", {"lr": 0.001, "dim": 16}),
    ]
    assert [r.name for r in recipes] == ["mooc-contig", "mooc-contig-no-norm", "mooc-contig-wide"]


def test_two_files_about_one_stream_do_not_share_names(tmp_path: Path) -> None:
    content = {"data": "mooc", "settings": {"epochs": 50}}
    one = read_recipes(written(tmp_path / "mooc.json", content))[0]
    other = read_recipes(written(tmp_path / "departures.json", content | {"settings": {"epochs": 20}}))[0]
    assert (one.name, other.name) == ("mooc-contig", "departures-mooc-contig")


@pytest.mark.parametrize("content", [[], {"model": "contig"}, {"data": "mooc", "variants": ["wide"]}])
def test_what_is_no_recipe(content: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"odd\.json is not a recipe.*JSON like"):
        read_recipes(written(tmp_path / "odd.json", content))


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.json: there is no such recipe"):
        read_recipes(tmp_path / "none.json")
