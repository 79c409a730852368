"""Plans: items share their runs, and the longest runs start first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from support.studies import fill, planned, small_stream

from contig.reproduction.datasets import StudyDataset
from contig.reproduction.items.fig5 import Fig5
from contig.reproduction.items.table2 import Table2
from contig.reproduction.plan import Plan, make_plan


def runs(plan: Plan) -> set[tuple[str, str, str, int]]:
    return {(j.recipe.data, j.recipe.model, j.recipe.variant, j.seed) for j in plan.trainings}


def test_the_runs_of_link_prediction_serve_four_items(tmp_path: Path) -> None:
    shared = runs(planned(tmp_path, "table2"))
    variants = {("contig", "as given"): 3, ("tgn", "as given"): 3}
    variants |= {("edgebank", "as given"): 1, ("edgebank", "window"): 1}
    assert shared == {
        (data, *model, seed)
        for data in ("wikipedia", "mooc")
        for model, seeds in variants.items()
        for seed in range(seeds)
    }
    assert runs(planned(tmp_path, "table2 table3 fig3 fig4")) == shared
    assert runs(planned(tmp_path, "fig3")) == shared


def test_a_run_gets_the_evaluations_of_every_item(tmp_path: Path) -> None:
    plan = planned(tmp_path, "table2 table3 fig3 fig4")
    tasks = {
        job.recipe.model: [work.name.partition(" ")[0] for work in plan.chain(job)[1:]]
        for job in plan.trainings
    }
    links, both = "link-negatives=random-any", ["recommend", "intervals"]
    assert tasks == {
        "contig": [links, "classify-seeds=5", *both],
        "tgn": [links, "classify-seeds=5", *both],
        "edgebank": [links, *both],
    }


def test_a_run_is_evaluated_whichever_item_trains_it(tmp_path: Path) -> None:
    """Settings of Fig. 5 that restate a default do not make another run of it."""
    plan = planned(tmp_path, "fig3 fig5", models=("contig",))
    restated = replace(Fig5(values={"heads": (2,)}, events=None), settings={"lr": 3e-4})
    plan = make_plan(replace(plan.study, items=(plan.study.item("fig3"), restated)))
    evaluations = [work for job in plan.trainings for work in plan.chain(job)[1:]]
    assert len(plan.trainings) == len(evaluations) == 2 * 3


def test_the_longest_runs_start_first(tmp_path: Path) -> None:
    study = planned(tmp_path, "table2").study
    sizes = {"mooc": 60, "collegemsg": 50}
    datasets = tuple(StudyDataset(name, small_stream(n), name) for name, n in sizes.items())
    shorter = Fig5(values={"dim": (4, 8)}, settings={}, events=1)
    plan = make_plan(replace(study, items=(Table2(), shorter), datasets=datasets))
    order = [(j.recipe.data, j.recipe.config(j.seed).train.epochs) for j in plan.longest_first]
    assert len(set(order)) > 2
    assert sorted(order, key=lambda run: -sizes[run[0]] * run[1]) == order
    assert {j.folder for j in plan.longest_first} == {j.folder for j in plan.trainings}
    seeds = [j.seed for j in plan.longest_first if j.recipe.model == "tgn"]
    assert seeds == [0, 1, 2, 0, 1, 2]


def test_timed_runs_are_apart(tmp_path: Path) -> None:
    plan = planned(tmp_path, "table4 fig6")
    assert len(plan.timed) == 5
    assert not {job.folder for job in plan.timed} & {job.folder for job in plan.trainings}
    assert plan.jobs == [*plan.trainings, *plan.timed]


def test_tables_come_in_the_papers_order(tmp_path: Path) -> None:
    plan = fill(planned(tmp_path, "fig6 table2"))
    assert [table.name for table in plan.tables()] == ["table2", "fig6"]
    assert all(table.grids for table in plan.tables())
