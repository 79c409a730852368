"""What holds for every table and figure."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from support.studies import fill, planned, small_stream, table_of

from contig.data import datasets, storage
from contig.errors import ConfigError
from contig.reproduction.datasets import StudyDataset
from contig.reproduction.items import ITEMS, NAMES, choose_items
from contig.reproduction.plan import Plan


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
