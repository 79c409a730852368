"""A run is taken for another's only where config, events and code are the same."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from contig.experiments import identity
from contig.experiments.identity import code_version, run_folder
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
    spelled = replace(BASE, settings={"dim": "8", "seed": 4})  # as a command line says it
    assert run_folder(spelled, 0, tmp_path) == run_folder(BASE, 0, tmp_path)
    assert run_folder(BASE, 0, tmp_path) != run_folder(BASE, 1, tmp_path)


def test_an_option_that_is_new_changes_no_run_that_was_made_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = run_folder(BASE, 0, tmp_path)
    plain = RunConfig.as_dict

    def with_a_new_one(config: RunConfig) -> dict[str, Any]:
        return plain(config) | {"options": plain(config)["options"] | {"brightness": 0.5}}

    monkeypatch.setattr(RunConfig, "as_dict", with_a_new_one)
    assert run_folder(BASE, 0, tmp_path) == known


def test_a_default_that_is_said_aloud_is_the_same_run(tmp_path: Path) -> None:
    said = replace(BASE, settings={"dim": 8, "heads": 2})
    assert run_folder(said, 0, tmp_path) == run_folder(BASE, 0, tmp_path)


def written(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def version(folder: Path) -> str:
    code_version.cache_clear()
    return code_version(folder)


def test_the_code_counts_where_it_decides_numbers(tmp_path: Path) -> None:
    written(tmp_path, "models/tgn.py", "x = 1\n")
    written(tmp_path, "cli/tables.py", "y = 1\n")
    first = version(tmp_path)
    assert version(tmp_path) == first
    written(tmp_path, "cli/tables.py", "y = 2\n")
    written(tmp_path, "experiments/paper.json", "{}")
    assert version(tmp_path) == first
    written(tmp_path, "models/tgn.py", "x = 2\n")
    second = version(tmp_path)
    assert second != first
    (tmp_path / "models/tgn.py").rename(tmp_path / "models/dyrep.py")
    assert version(tmp_path) not in (first, second)


def test_changed_code_is_another_run_unless_any_code_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "code_version", lambda: "1.0-aaaaaaaa")
    old = run_folder(BASE, 0, tmp_path)
    monkeypatch.setattr(identity, "code_version", lambda: "1.0-bbbbbbbb")
    new = run_folder(BASE, 0, tmp_path)
    assert old != new
    old.mkdir()
    assert run_folder(BASE, 0, tmp_path, any_code=True) == new  # the old one is not finished
    (old / "metrics.json").touch()
    assert run_folder(BASE, 0, tmp_path, any_code=True) == old
    assert run_folder(BASE, 0, tmp_path) == new
    later = old.with_name(old.name.replace("aaaaaaaa", "cccccccc"))
    written(later, "metrics.json", "")
    os.utime(old / "metrics.json", (1, 1))
    assert run_folder(BASE, 0, tmp_path, any_code=True) == later
    written(new, "metrics.json", "")
    os.utime(new / "metrics.json", (0, 0))
    assert run_folder(BASE, 0, tmp_path, any_code=True) == new  # this code's own comes first
