"""Variants of a recipe are compared with its own settings."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from contig.benchmarks.bench import Bench
from contig.benchmarks.departures import measure_departures
from contig.experiments.recipes import read_recipes
from contig.layers import ode


def with_recipe(bench: Bench, path: Path) -> Bench:
    return Bench(bench.data, replace(bench.settings, recipe=str(path)))


def test_each_variant_is_compared_with_the_default(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "recipe.json"
    variants = {"no norm": {"state_norm": False}, "gates fixed": {"without": "adaptive"}}
    path.write_text(json.dumps({"data": "any", "settings": {"lr": 0.01}, "variants": variants}))
    rows = list(measure_departures(with_recipe(bench, path)))
    assert [row.peer_name for row in rows] == ["ours, no norm", "ours, gates fixed"]
    assert all(row.repeats == bench.settings.repeats for row in rows)


def test_a_variant_that_cannot_run_leaves_the_others(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torchdiffeq", None)
    path = tmp_path / "recipe.json"
    variants = {"rk4": {"solver": "rk4"}, "no norm": {"state_norm": False}}
    path.write_text(json.dumps({"data": "any", "variants": variants}))
    missing, measured = measure_departures(with_recipe(bench, path))
    assert "needs torchdiffeq" in missing.note
    assert missing.ratio is None
    assert measured.ratio is not None


def test_the_default_recipe_is_found_in_any_folder(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = list(measure_departures(bench))
    assert len(rows) == len(read_recipes("departures")) - 1
    assert all(row.ratio is not None for row in rows)


def test_without_a_recipe_it_says_what_is_missing(bench: Bench, tmp_path: Path) -> None:
    (row,) = measure_departures(with_recipe(bench, tmp_path / "none.json"))
    assert row.ratio is None
    assert "none.json" in row.note


def test_the_default_recipe_and_that_of_the_solvers_come_with_the_package(bench: Bench) -> None:
    [default, *variants] = read_recipes(bench.settings.recipe)
    assert (default.data, default.model) == ("collegemsg", "contig")
    departures = {"state_norm", "query_time", "time_encoding", "scaled_time", "scope"}
    assert {name for v in variants for name in v.settings} - set(default.settings) == departures
    _, *solvers = read_recipes(f"{bench.settings.recipe}-solvers")
    assert {v.settings["solver"] for v in solvers} == set(ode.SOLVERS) - {"series", "euler"}
