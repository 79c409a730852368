"""A study's recipes come from the configs folder, else from the models' defaults."""

from __future__ import annotations

import json
from pathlib import Path

from support.studies import planned, small_items, small_stream

from contig.reproduction.datasets import StudyDataset
from contig.reproduction.scales import Scale
from contig.reproduction.study import Study


def study(folder: Path, models: tuple[str, ...]) -> Study:
    """Two datasets at a scale that fixes one option."""
    datasets = (
        StudyDataset("mooc", small_stream(), "mooc"),
        StudyDataset("collegemsg", small_stream(50), "collegemsg"),
    )
    scale = Scale(seeds=1, settings={"dim": 8, "epochs": 2})
    return Study(small_items("table2"), datasets, models, 2, folder, scale, folder / "configs")


def test_recipes_are_found_by_dataset_and_model(tmp_path: Path) -> None:
    folder = tmp_path / "configs"
    folder.mkdir()
    for name, content in {
        "mooc": {"data": "mooc", "model": "contig", "settings": {"scope": "all", "lr": 0.25, "dim": 99}},
        "mooc-tgn": {"data": "mooc", "model": "tgn", "settings": {"lr": 0.5}},
        "trials": {"data": "collegemsg", "model": "contig", "settings": {"lr": 0.75}},
    }.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    found = study(tmp_path, ("contig", "tgn", "recency"))
    mooc, collegemsg = found.datasets
    contig, tgn, recency = (recipe.config(0) for recipe in found.recipes(mooc, found.models))
    assert (contig.train.lr, contig.model_options.scope, tgn.train.lr) == (0.25, "all", 0.5)
    assert contig.model_options.dim == 8  # the scale overrides the file
    assert recency.model == "recency"
    assert [r.config(0).train.lr for r in found.recipes(collegemsg, ["contig", "tgn"])] == [3e-4, 3e-4]


def test_the_papers_model_has_a_recipe_even_if_it_is_not_chosen(tmp_path: Path) -> None:
    found = study(tmp_path, ("recency",))
    base = found.base_recipe(found.datasets[0])
    expected = {
        "dim": 8,
        "epochs": 2,
        "holdout": "tgn",
        "scope": "near",
    }  # the protocol of a file is that of the datasets
    assert (base.model, base.settings) == ("contig", expected)
    assert [recipe.model for recipe in found.recipes(found.datasets[0], found.models)] == ["recency"]


def test_variants_of_the_papers_model_are_recipes_of_their_own(tmp_path: Path) -> None:
    """What the paper does not have never becomes the paper's model."""
    folder = tmp_path / "configs"
    folder.mkdir()
    variants = {"activity": {"activity": True}, "slow": {"lr": 0.125, "dim": 77}}
    content = {"data": "mooc", "model": "contig", "settings": {"lr": 0.25}, "variants": variants}
    (folder / "mooc.json").write_text(json.dumps(content))
    found = study(tmp_path, ("contig", "tgn"))
    mooc, collegemsg = found.datasets
    configs = {r.variant: r.config(0) for r in found.recipes(mooc, ["contig"])}
    assert list(configs) == ["as given", "activity", "slow"]
    assert [one.model_options.activity for one in configs.values()] == [False, True, False]
    assert [one.train.lr for one in configs.values()] == [0.25, 0.25, 0.125]
    assert {one.model_options.dim for one in configs.values()} == {8}  # the scale overrides the file
    assert found.base_recipe(mooc).config(0) == configs["as given"]
    assert [r.variant for r in found.recipes(collegemsg, ["contig"])] == ["as given"]


def test_every_seed_of_a_model_and_one_of_a_heuristic(tmp_path: Path) -> None:
    found = study(tmp_path, ("tgn", "recency"))
    jobs = found.jobs(found.recipes(found.datasets[0], found.models))
    assert [(job.recipe.model, job.seed) for job in jobs] == [("tgn", 0), ("tgn", 1), ("recency", 0)]
    assert all(job.folder.parent == tmp_path / "runs" for job in jobs)


def test_items_are_found_by_name(tmp_path: Path) -> None:
    plan = planned(tmp_path, "table2 fig6")
    assert plan.study.item("fig6") is plan.study.items[1]
