"""The protocol and the differences from the paper follow from the study."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.finished import finish
from support.studies import fill, planned

from contig.reproduction.protocol import (
    differences,
    interval_differences,
    model_differences,
    protocol,
    protocol_page,
)
from contig.reproduction.scales import Scale


def test_differences(tmp_path: Path) -> None:
    text = " ".join(differences(planned(tmp_path)))
    assert "wikipedia has 0 features here and 172 in the paper." in text
    assert "Not run: reddit, collegemsg." in text
    assert "Seeds 0 to 2 here, 10 runs in the paper" in text
    assert "lr is 0.0003 (paper: 0.0001)" in text
    assert "time_dim" not in text  # it is the paper's
    assert "scope is near (paper: all)" in text
    assert "time_encoding is log (paper: raw)" in text
    assert "frequencies is log (paper: direct)" in text
    assert "query_time is zero (paper: absolute)" in text
    assert "activity" not in text
    assert "docs/results/departures.md" in text
    assert "Fig. 6 uses synthetic" in text
    assert "Fig. 6 uses synthetic" not in " ".join(differences(planned(tmp_path, "table2")))


def test_a_setting_that_differs_on_one_dataset_names_it(tmp_path: Path) -> None:
    folder = tmp_path / "configs"
    folder.mkdir()
    settings = {"scope": "all", "activity": True}
    (folder / "mooc.json").write_text(json.dumps({"data": "mooc", "model": "contig", "settings": settings}))
    [line] = model_differences(planned(tmp_path, "table2", configs=folder))
    assert "activity is on (mooc; paper: off)" in line
    assert "scope is near (wikipedia; paper: all)" in line
    assert "lr is 0.0003 (paper: 0.0001)" in line


def test_a_variant_is_not_the_papers_model(tmp_path: Path) -> None:
    folder = tmp_path / "configs"
    folder.mkdir()
    recipe = {"data": "mooc", "model": "contig", "variants": {"activity": {"activity": True}}}
    (folder / "mooc.json").write_text(json.dumps(recipe))
    plan = planned(tmp_path, "table2", configs=folder)
    assert {job.recipe.variant for job in plan.jobs if job.recipe.settings.get("activity")} == {"activity"}
    [line] = model_differences(plan)
    assert "activity" not in line


@pytest.mark.parametrize("item", ["table4", "fig5", "fig6"])
def test_model_differences_of_every_item_about_the_papers_model(item: str, tmp_path: Path) -> None:
    [line] = model_differences(planned(tmp_path, item))
    assert "state_norm is on (paper: off)" in line
    for varied in ("horizon", "neighbors", "heads", "dim"):
        assert f"{varied} is" not in line  # varied on purpose


def test_no_model_differences_without_the_papers_model(tmp_path: Path) -> None:
    assert model_differences(planned(tmp_path, "table2", models=("tgn",))) == []


def test_each_item_adds_its_protocol(tmp_path: Path) -> None:
    both = " ".join(protocol(planned(tmp_path, "table3 fig3")))
    assert "Classification trains" in both
    assert "Recommendation ranks" in both
    one = " ".join(protocol(planned(tmp_path, "table2")))
    assert "Classification" not in one
    assert "Recommendation" not in one


def test_the_page_is_complete(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    page = protocol_page(plan)
    for line in (*protocol(plan), *differences(plan)):
        assert f"\n- {line}\n" in page
    assert page.count("\n# ") + page.startswith("# ") == 2


def test_one_seed_and_a_small_scale(tmp_path: Path) -> None:
    small = Scale(seeds=1, warning="QUICK: small", settings={"dim": 8})
    plan = planned(tmp_path, "table2", seeds=1, scale=small)
    text = " ".join(differences(plan))
    assert "QUICK: small" in text
    assert "dim is 8 (paper: 172)" in text
    assert "Seed 0 only" in " ".join(protocol(plan))


@pytest.mark.parametrize(
    ("kept", "expected"),
    [((0,), "Seed 0 only"), ((0, 1, 2), "Seeds 0 to 2"), ((0, 2), "Seeds 0, 2"), ((1, 2), "Seeds 1 to 2")],
)
def test_the_seeds_are_those_of_finished_runs(kept: tuple[int, ...], expected: str, tmp_path: Path) -> None:
    plan = planned(tmp_path, "table2", seeds=5)
    for job in plan.jobs:
        if job.seed in kept or job.recipe.model == "edgebank":  # which has one run, whatever the seeds
            finish(job)
    assert f"{expected} for weights" in " ".join(protocol(plan))
    assert f"{expected} here, 10 runs in the paper" in " ".join(differences(plan))


def test_more_seeds_of_some_models_are_named_apart(tmp_path: Path) -> None:
    plan = planned(tmp_path, "table2", seeds=5, models=("jodie", "tgn", "dyrep", "contig"))
    for job in plan.jobs:
        if job.seed < 3 or job.recipe.model == "contig":
            finish(job)
    assert "Seeds 0 to 2 (some models: seeds 0 to 4) for weights" in " ".join(protocol(plan))


def test_timed_runs_with_one_seed_do_not_decide_which_seeds_are_usual(tmp_path: Path) -> None:
    plan = fill(planned(tmp_path, "table2 fig6", models=("contig", "tgn")))
    assert len({job.recipe.stem for job in plan.timed}) > len({job.recipe.stem for job in plan.trainings})
    assert "Seeds 0 to 2 for weights" in " ".join(protocol(plan))


def test_models_that_count_intervals_in_events_are_named(tmp_path: Path) -> None:
    both = planned(tmp_path / "a", "table2", models=("jodie", "tgn", "dyrep"))
    [line] = interval_differences(both)
    assert "by dyrep and jodie, where" in line
    assert interval_differences(planned(tmp_path / "b", "table2", models=("tgn",))) == []
