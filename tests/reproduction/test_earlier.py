"""A report keeps what earlier calls reproduced in the same folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.studies import fill, planned, table_of

from contig.errors import ConfigError, RunError
from contig.reproduction import earlier
from contig.reproduction.datasets import StudyDataset
from contig.reproduction.earlier import record, with_earlier
from contig.reproduction.plan import Plan, make_plan
from contig.reproduction.scales import Scale

NAMES = ("wikipedia", "mooc")


def call(folder: Path, items: str, datasets: tuple[str, ...] = NAMES, **changes: Any) -> Plan:
    """Reproduce items on some datasets as a command would; return what its report shows."""
    plan = planned(folder, items, **changes)
    chosen = tuple(one for one in plan.study.datasets if one.name in datasets)
    plan = fill(make_plan(replace(plan.study, datasets=chosen)))
    record(plan, datasets)
    shown, left_out = with_earlier(plan, datasets)
    assert left_out == []
    return shown


@pytest.fixture(autouse=True)
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Open the datasets of an earlier call without files."""
    known = {one.name: one for one in planned(tmp_path).study.datasets}

    def open_dataset(name: str, events: int | None, folder: Path) -> StudyDataset:
        if name not in known:
            raise ConfigError(f"{name} is missing")
        return known[name]

    monkeypatch.setattr(earlier, "open_dataset", open_dataset)


def names(plan: Plan) -> list[str]:
    return [table.name for table in plan.tables()]


def test_every_call_adds_to_the_report(tmp_path: Path) -> None:
    first = call(tmp_path, "fig3")
    both = call(tmp_path, "table2")
    assert (names(first), names(both)) == (["fig3"], ["table2", "fig3"])
    assert table_of(both, "fig3").sheet() == table_of(first, "fig3").sheet()
    assert len(both.jobs) == len(first.jobs) > 0  # the two share their runs


def test_items_keep_the_choices_they_were_reproduced_with(tmp_path: Path) -> None:
    before = call(tmp_path, "table2", ("mooc",), models=("contig", "tgn"))
    after = call(tmp_path, "fig3", ("wikipedia",), seeds=1)
    kept, new = after.tables()
    assert kept.sheet() == before.tables()[0].sheet()
    assert "3 seeds" in " ".join(kept.notes)
    assert "One seed." in new.notes
    assert {grid.title for grid in kept.measured} == {"mooc"}
    assert {one.name for one in after.study.datasets} == set(NAMES)


def test_an_item_gains_datasets_and_follows_other_changes(tmp_path: Path) -> None:
    call(tmp_path, "table2", ("wikipedia",))
    [table] = call(tmp_path, "table2", ("mooc",)).tables()
    assert [grid.title for grid in table.measured] == ["wikipedia", "mooc"]
    [table] = call(tmp_path, "table2", ("mooc",), models=("contig",)).tables()
    assert [grid.title for grid in table.measured] == ["mooc"]


def test_a_smoke_test_shows_no_full_results(tmp_path: Path) -> None:
    call(tmp_path, "table2")
    assert names(call(tmp_path, "fig3", scale=Scale(seeds=1, warning="QUICK"))) == ["fig3"]
    assert names(call(tmp_path, "table4")) == ["table2", "table4"]


def test_a_dataset_that_is_missing_is_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def missing(name: str, events: int | None, folder: Path) -> StudyDataset:
        tried.append(name)
        raise ConfigError(f"{name} is missing")

    record(fill(planned(tmp_path, "table2 table4")), ("here", "gone"))
    monkeypatch.setattr(earlier, "open_dataset", missing)
    _, left_out = with_earlier(fill(planned(tmp_path, "fig3")), NAMES)
    assert tried == ["here"]
    assert left_out == [
        "the report leaves out results of table2, table4 recorded in items.json: here is missing"
    ]


def test_what_cannot_be_read_again_is_left_out(tmp_path: Path) -> None:
    plan = fill(planned(tmp_path, "table2"))
    record(plan, ("here", "gone"))
    shown, left_out = with_earlier(fill(planned(tmp_path, "fig3")), NAMES)
    assert names(shown) == ["fig3"]
    assert left_out == ["the report leaves out results of table2 recorded in items.json: here is missing"]
    (tmp_path / earlier.FILE).write_text("[]")
    with pytest.raises(RunError, match=r"items\.json.*Delete it"):
        with_earlier(plan, NAMES)
