"""What holds for every table and figure."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from support.studies import fill, planned, small_stream, table_of

from contig.data import datasets, storage
from contig.errors import ConfigError
from contig.experiments.rows import Spread
from contig.reproduction.datasets import StudyDataset
from contig.reproduction.items import ITEMS, NAMES, choose_items
from contig.reproduction.plan import Plan
from contig.reproduction.tables.numbers import Value

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return fill(planned(tmp_path_factory.mktemp("study")))


def test_items_come_in_the_papers_order() -> None:
    assert NAMES == ("table2", "table3", "table4", "fig3", "fig4", "fig5", "fig6")
    assert [item.name for item in choose_items(["fig4", "table2"])] == ["table2", "fig4"]
    assert choose_items(["all", "fig4"]) == ITEMS
    with pytest.raises(ConfigError, match="Did you mean 'table2'"):
        choose_items(["table22"])


def test_quick_items_are_smaller() -> None:
    quick = choose_items(["all"], quick=True)
    assert [item.name for item in quick] == list(NAMES)
    assert quick != ITEMS


@pytest.mark.parametrize(("every", "fig4"), [(False, "wikipedia visits"), (True, "wikipedia mooc visits")])
def test_items_are_run_on_the_papers_datasets_unless_all_are_wanted(
    every: bool, fig4: str, tmp_path: Path
) -> None:
    """The paper shows Fig. 4 on wikipedia and collegemsg; a dataset it does not use is run on everything."""
    datasets = tuple(StudyDataset(n, small_stream(), n) for n in ("wikipedia", "mooc", "visits"))
    groups = planned(tmp_path, datasets=datasets, every_dataset=every).groups
    found = {item: " ".join(dict.fromkeys(group.dataset for group in some)) for item, some in groups.items()}
    all_three = dict.fromkeys(NAMES, "wikipedia mooc visits")
    assert found == {**all_three, "fig4": fig4, "fig6": "synthetic"}


@pytest.mark.parametrize(
    ("name", "panels"),
    [("table2", 4), ("table3", 2), ("table4", 4), ("fig3", 2), ("fig4", 4), ("fig5", 10), ("fig6", 1)],
)
def test_figures_with_and_without_a_heading(name: str, panels: int, plan: Plan) -> None:
    item, table = plan.study.item(name), table_of(plan, name)
    bare, headed = item.figure(table), item.figure(table, ["3 seeds"])
    assert bare is not None
    assert headed is not None
    assert len(bare.axes) == len(headed.axes) == panels
    assert bare.texts == []
    assert [" ".join(text.get_text().split()) for text in headed.texts] == [table.title, "3 seeds"]


def test_every_item_has_claims(plan: Plan) -> None:
    for item in plan.study.items:
        claims = list(item.claims(table_of(plan, item.name)))
        assert claims, item.name
        prefix = item.title.partition(":")[0]
        assert all(claim.text.startswith(f"{prefix}: ") for claim in claims)


@pytest.mark.parametrize("name", NAMES)
def test_without_results_a_table_says_so_and_nothing_is_drawn(name: str, tmp_path: Path) -> None:
    plan = planned(tmp_path, name)
    item, table = plan.study.item(name), table_of(plan, name)
    assert table.grids == ()
    assert table.notes[0].startswith("No results yet")
    assert item.figure(table) is None
    assert list(item.claims(table)) == []


def test_only_saved_results_are_read(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """No dataset is opened, no weights are loaded and no process is started."""
    before = plan.tables()
    for place, name in (
        *((torch, "load"), (np, "load"), (subprocess, "run")),
        *((datasets, "open_stream"), (storage, "load_stream")),
    ):
        monkeypatch.setattr(place, name, lambda *_, **__: pytest.fail("not a saved result"))
    assert repr(plan.tables()) == repr(before)


@pytest.fixture(scope="module")
def with_activity(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """A study with the project's own recipe of mooc."""
    folder = tmp_path_factory.mktemp("activity")
    return fill(planned(folder, "table2 table3 table4 fig3 fig5", configs=ROOT / "configs"))


@pytest.mark.parametrize("name", ["table2", "table3", "fig3"])
def test_activity_is_a_row_of_its_own_that_no_claim_is_judged_by(name: str, with_activity: Plan) -> None:
    item, table = with_activity.study.item(name), table_of(with_activity, name)
    lines = [line for grid in table.measured for line in grid.lines if line.label == "contig, activity"]
    assert lines
    assert all(
        line.excluded and value.paper.mean != value.paper.mean for line in lines for value in line.values
    )
    best = tuple(Value(Spread(200.0, 0.0), seeds=3) for _ in lines[0].values)  # better than anything else
    grids = tuple(
        replace(g, lines=tuple(x._replace(values=best) if x in lines else x for x in g.lines))
        for g in table.grids
    )
    assert list(item.claims(replace(table, grids=grids))) == list(item.claims(table))


@pytest.mark.parametrize("name", ["table4", "fig5"])
def test_ablations_and_options_are_of_the_model_without_activity(name: str, with_activity: Plan) -> None:
    jobs = [job for group in with_activity.groups[name] for job in group.jobs]
    assert jobs
    assert not any(job.recipe.config(0).model_options.activity for job in jobs)


@pytest.mark.parametrize("name", ["table2", "table3", "fig3"])
def test_a_table_names_the_settings_of_every_model(name: str, with_activity: Plan) -> None:
    notes = table_of(with_activity, name).notes
    shared = "All trained models: 1 layer, 172 dimensions, at most 50 epochs, patience 5."
    place = notes.index(shared)
    assert notes[place + 1 : place + 4] == (
        "contig: 15 neighbors, lr 0.0003, scope=near.",
        "contig, activity: 15 neighbors, lr 0.0003, scope=near, activity=true.",
        "tgn: 10 neighbors, lr 0.0003 (on mooc: lr 0.0001).",
    )
    assert not any(note.startswith("edgebank: ") for note in notes)


def test_an_option_of_a_recipe_is_named_with_its_dataset(tmp_path: Path) -> None:
    """TGAT has random vectors of nodes on mooc, by the project's own recipe."""
    notes = table_of(
        fill(planned(tmp_path, "table2", models=("tgat",), configs=ROOT / "configs")), "table2"
    ).notes
    assert (
        "tgat: 2 layers, 20 neighbors, 172 dimensions, lr 0.0003, at most 50 epochs, patience 5 "
        "(on mooc: 10 neighbors, identity=32)."
    ) in notes


@pytest.mark.parametrize("name", ["table4", "fig5", "fig6"])
def test_a_table_of_variants_names_the_settings_of_the_model_once(name: str, plan: Plan) -> None:
    notes = [note for note in table_of(plan, name).notes if note.startswith("contig")]
    assert notes == [
        "contig: 1 layer, 15 neighbors, 172 dimensions, lr 0.0003, "
        f"at most {4 if name == 'fig6' else 50} epochs, patience 5, scope=near."
    ]


@pytest.mark.parametrize("name", NAMES)
def test_every_table_refers_to_the_ledger_of_departures(name: str, plan: Plan) -> None:
    notes = table_of(plan, name).notes
    assert any("docs/results/departures.md" in note for note in notes)
