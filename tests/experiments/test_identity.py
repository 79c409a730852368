"""Runs share a folder only if config, events and numerics are the same."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from contig import numerics
from contig.experiments.identity import finished_otherwise, numerics_of, run_folder
from contig.experiments.recipes import Recipe
from contig.runs.config import RunConfig

BASE = Recipe("mooc", "tgn", {"dim": 8}, fingerprint="one")


@pytest.mark.parametrize(
    "other",
    [
        replace(BASE, settings={"dim": 9}),
        replace(BASE, settings={"dim": 8, "lr": 0.5}),
        replace(BASE, fingerprint="two"),
        replace(BASE, model="jodie"),
    ],
    ids=["option", "training", "events", "model"],
)
def test_another_run_has_another_folder(other: Recipe, tmp_path: Path) -> None:
    assert run_folder(other, 0, tmp_path) != run_folder(BASE, 0, tmp_path)


def test_the_same_run_has_the_same_folder(tmp_path: Path) -> None:
    as_typed = replace(BASE, settings={"dim": "8", "seed": 4})  # text, as from a command line
    assert run_folder(as_typed, 0, tmp_path) == run_folder(BASE, 0, tmp_path)
    assert run_folder(BASE, 0, tmp_path) != run_folder(BASE, 1, tmp_path)


def test_a_new_option_does_not_change_earlier_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = run_folder(BASE, 0, tmp_path)
    as_dict = RunConfig.as_dict

    def with_new_option(config: RunConfig) -> dict[str, Any]:
        return as_dict(config) | {"options": as_dict(config)["options"] | {"brightness": 0.5}}

    monkeypatch.setattr(RunConfig, "as_dict", with_new_option)
    assert run_folder(BASE, 0, tmp_path) == before


def test_an_explicit_default_is_the_same_run(tmp_path: Path) -> None:
    explicit = replace(BASE, settings={"dim": 8, "heads": 2})
    assert run_folder(explicit, 0, tmp_path) == run_folder(BASE, 0, tmp_path)


def finish(folder: Path, modified: int) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "metrics.json").touch()
    os.utime(folder / "metrics.json", (modified, modified))


def test_other_numerics_are_another_run_unless_any_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = []
    for version in (1, 2, 3):
        monkeypatch.setattr(numerics, "VERSION", version)
        folders.append(run_folder(BASE, 0, tmp_path))
    assert [numerics_of(folder) for folder in folders] == ["v1", "v2", "v3"]
    first, second, ours = folders
    first.mkdir()
    assert run_folder(BASE, 0, tmp_path, any_numerics=True) == ours  # the first one is not finished
    finish(first, modified=10)
    assert run_folder(BASE, 0, tmp_path, any_numerics=True) == first
    assert run_folder(BASE, 0, tmp_path) == ours
    finish(second, modified=20)
    assert run_folder(BASE, 0, tmp_path, any_numerics=True) == second  # the latest
    finish(ours, modified=5)
    assert run_folder(BASE, 0, tmp_path, any_numerics=True) == ours  # preferred, whatever its age


def test_finished_runs_of_other_events_or_settings_are_found(tmp_path: Path) -> None:
    def finished(seed: int = 0, **changes: Any) -> Path:
        folder = run_folder(replace(BASE, **changes), seed, tmp_path)
        finish(folder, modified=10)
        return folder

    others = {finished(fingerprint="two"), finished(settings={"dim": 7})}
    ours = finished()
    finished(fingerprint="two", seed=1)
    finished(fingerprint="two", variant="0", seed=5)
    run_folder(replace(BASE, fingerprint="three"), 0, tmp_path).mkdir()
    assert set(finished_otherwise(ours)) == others
    assert finished_otherwise(ours, others) == []
