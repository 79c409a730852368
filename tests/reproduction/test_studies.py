"""Plans: each table and figure asks for its runs, and what is common to them is trained once."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contig.data.datasets import open_stream
from contig.data.events import EventStream
from contig.data.splits import chronological_split
from contig.errors import ConfigError
from contig.reproduction.sources import Source
from contig.reproduction.studies import FULL, ITEMS, QUICK, Plan, Study, chosen_items, make_plan

SMALL = replace(
    FULL,
    settings={"dim": 8, "epochs": 2},
    sweeps={"horizon": (0.5, 1.0), "dim": (4, 8, 16)},
    sizes=(100, 200),
    timing={"dim": 8, "epochs": 2},
    sweep_settings={},
    sweep_events=None,
)


def stream(events: int = 60, labelled: bool = True) -> EventStream:
    rng = np.random.default_rng(events)
    label = rng.integers(0, 2, events) if labelled else None
    return EventStream.from_arrays(
        rng.integers(0, 9, events), rng.integers(9, 20, events), np.arange(events), label=label
    )


def study(items: str, folder: Path, **changes: Any) -> Study:
    sources = (Source("mooc", stream(), "mooc"), Source("collegemsg", stream(50, False), "collegemsg"))
    wanted = chosen_items(items.split())
    plain = Study(wanted, sources, ("contig", "tgn", "recency"), 2, folder, SMALL, folder / "configs")
    return replace(plain, **changes)


def names(plan: Plan) -> set[tuple[str, str, str, int]]:
    return {(j.recipe.data, j.recipe.model, j.recipe.variant, j.seed) for j in plan.trainings}


def test_items_come_in_the_papers_order() -> None:
    assert chosen_items(["fig4", "table2"]) == ("table2", "fig4")
    assert chosen_items(["all", "fig4"]) == ITEMS
    with pytest.raises(ConfigError, match="Did you mean 'table2'"):
        chosen_items(["table22"])


def test_the_runs_of_link_prediction_serve_four_items(tmp_path: Path) -> None:
    shared = names(make_plan(study("table2", tmp_path)))
    assert shared == {
        (data, model, "as given", seed)
        for data in ("mooc", "collegemsg")
        for model, seeds in (("contig", 2), ("tgn", 2), ("recency", 1))
        for seed in range(seeds)
    }
    assert names(make_plan(study("table2 table3 fig3 fig4", tmp_path))) == shared
    assert names(make_plan(study("fig3", tmp_path))) < shared


def test_each_item_is_measured_on_the_papers_streams_unless_others_are_named(tmp_path: Path) -> None:
    plan = make_plan(study("all", tmp_path))
    asked = {item: set(streams) for item, streams in plan.evaluations.items()}
    assert asked == {"table3": {"mooc"}, "fig3": {"mooc"}, "fig4": {"collegemsg"}}
    assert set(plan.sweeps) == {"mooc"}
    plan = make_plan(study("all", tmp_path, as_paper=False))
    asked = {item: set(streams) for item, streams in plan.evaluations.items()}
    both = {"mooc", "collegemsg"}
    assert asked == {"table3": {"mooc"}, "fig3": both, "fig4": both}  # collegemsg has no labels


def test_rules_have_nothing_to_classify_by(tmp_path: Path) -> None:
    plan = make_plan(study("table3", tmp_path))
    assert {name[1] for name in names(plan)} == {"contig", "tgn"}
    both = make_plan(study("table2 table3", tmp_path))
    assert {e.job.recipe.model for e in both.evaluations["table3"]["mooc"]} == {"contig", "tgn"}


def test_six_ablations_and_the_full_model_shared(tmp_path: Path) -> None:
    plan = make_plan(study("table2 table4", tmp_path))
    parts = [job.recipe.settings.get("without") for job in plan.ablations["mooc"] if job.seed == 0]
    six = ["transform", "update", "adaptive", "latest", "neighbor", "inherent"]
    assert parts == [*((part,) for part in six), None]
    full = [job.folder for job in plan.ablations["mooc"] if job.recipe.variant == "as given"]
    assert full == [job.folder for job in plan.lineups["mooc"] if job.recipe.model == "contig"]
    assert len(plan.trainings) == 2 * (5 + 6 * 2)


def test_a_sweep_passes_through_the_plain_run(tmp_path: Path) -> None:
    plan = make_plan(study("table2 fig5", tmp_path))
    dims = [(j.recipe.variant, j.recipe.settings["dim"]) for j in plan.sweeps["mooc"]["dim"] if j.seed == 0]
    assert dims == [("dim 4", 4), ("as given", 8), ("dim 16", 16)]
    plain = {job.folder for jobs in plan.lineups.values() for job in jobs}
    swept = [job.folder for jobs in plan.sweeps["mooc"].values() for job in jobs]
    assert len([folder for folder in swept if folder in plain]) == 2 * 2  # two options, two seeds
    assert len(set(swept)) == 2 * (1 + 2 + 1)


def test_curves_can_be_of_shorter_trainings(tmp_path: Path) -> None:
    """All of one length, the middle of the curves included, which is then not the full model's run."""
    given = study("table4 fig5", tmp_path)
    trained = len(chronological_split(given.sources[0].stream).train)
    plan = make_plan(replace(given, scale=replace(given.scale, sweep_events=trained + 1)))
    swept = {job.folder: job for jobs in plan.sweeps["mooc"].values() for job in jobs}
    assert {job.recipe.config(0).train.epochs for job in swept.values()} == {1}
    assert len(swept) == 2 * (1 + 2 + 1)
    others = {job.folder for job in plan.ablations["mooc"]}
    assert others
    assert not others & set(swept)
    longer = make_plan(replace(given, scale=replace(given.scale, sweep_events=99 * trained)))
    assert {job.folder for job in longer.sweeps["mooc"]["dim"]} & others  # never longer than the recipe says


def test_a_run_is_asked_everything_whichever_item_names_it(tmp_path: Path) -> None:
    """The settings of Fig. 5 may say a default aloud: it is still the run of Fig. 3."""
    scale = replace(SMALL, sweep_settings={"lr": 3e-4})
    plan = make_plan(study("fig3 fig5", tmp_path, scale=scale, models=("contig",)))
    asked = [work for job in plan.trainings for work in plan.chain(job)[1:]]
    assert len(asked) == len(plan.evaluations["fig3"]["mooc"]) == 2


def test_the_longest_trainings_begin_first(tmp_path: Path) -> None:
    plan = make_plan(study("table2 fig5", tmp_path, scale=replace(SMALL, sweep_events=1)))
    began = [(j.recipe.data, j.recipe.config(j.seed).train.epochs) for j in plan.longest_first]
    most = {"mooc": 60, "collegemsg": 50}  # events
    assert sorted(began, key=lambda run: -most[run[0]] * run[1]) == began
    assert {j.folder for j in plan.longest_first} == {j.folder for j in plan.trainings}
    alike = [j.seed for j, run in zip(plan.longest_first, began, strict=True) if run == ("mooc", 2)]
    assert alike == [0, 0, 1, 1]  # contig and tgn


def test_timings_are_of_growing_streams_and_apart(tmp_path: Path) -> None:
    plan = make_plan(study("fig6", tmp_path))
    longer, larger = plan.timings["as many nodes"], plan.timings["more nodes"]
    assert [job.recipe.data for job in larger] == ["synthetic:100", "synthetic:200"]
    kept = str(tmp_path / "data/synthetic-100-watched.parquet")
    assert [job.recipe.data for job in longer] == [kept, "synthetic:200"]  # the middle one is both
    assert [job.folder for job in plan.timed] == [j.folder for j in (*longer, larger[0])]
    read = open_stream(kept, bipartite=True)
    assert longer[0].recipe.fingerprint == read.fingerprint()
    assert plan.trainings == []


def test_recipes_are_found_by_stream_and_model(tmp_path: Path) -> None:
    folder = tmp_path / "configs"
    folder.mkdir()
    for name, content in {
        "mooc": {"data": "mooc", "settings": {"scope": "all", "lr": 0.25, "dim": 99}},
        "mooc-tgn": {"data": "mooc", "model": "tgn", "settings": {"lr": 0.5}},
        "trials": {"data": "collegemsg", "settings": {"lr": 0.75}},
    }.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    plan = make_plan(study("table2", tmp_path))
    found = {(j.recipe.data, j.recipe.model): j.recipe.config(0) for j in plan.trainings}
    contig, tgn = found["mooc", "contig"], found["mooc", "tgn"]
    assert (contig.train.lr, contig.model_options.scope, tgn.train.lr) == (0.25, "all", 0.5)
    assert contig.model_options.dim == 8  # what the scale says of all holds
    assert found["collegemsg", "contig"].train.lr == found["collegemsg", "tgn"].train.lr == 3e-4


def test_the_scales_are_the_papers_and_a_labelled_small_one() -> None:
    assert FULL.sweeps["dim"] == FULL.sweeps["time_dim"] == (16, 64, 128, 172, 256)
    assert (min(FULL.sweeps["horizon"]), max(FULL.sweeps["horizon"])) == (0.6, 1.6)
    assert (FULL.sizes[0], FULL.sizes[-1], FULL.events, FULL.warning) == (40_000, 800_000, None, "")
    assert set(QUICK.sweeps) == set(FULL.sweeps)
    assert f"{QUICK.events:,} events" in QUICK.warning
    assert f"{QUICK.settings['epochs']} epochs" in QUICK.warning
    assert f"width {QUICK.settings['dim']}" in QUICK.warning
