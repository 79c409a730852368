"""What is shown is what the saved results say, averaged as numpy does, beside the paper's numbers."""

from __future__ import annotations

import json
import subprocess
from math import isnan, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.studies import SECONDS, fill, lots, planned

from contig.experiments.jobs import Job
from contig.files import write_json
from contig.models.tgn import TGN
from contig.reproduction.findings import growth, tables, timings
from contig.reproduction.grids import Grid, Table, Value
from contig.reproduction.studies import ITEMS, Plan
from contig.tasks.intervals import SETS


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return fill(planned(tmp_path_factory.mktemp("study")))


@pytest.fixture(scope="module")
def made(plan: Plan) -> dict[str, Table]:
    return {table.name: table for table in tables(plan)}


def grid(table: Table, title: str) -> Grid:
    [found] = [grid for grid in table.grids if grid.title == title]
    return found


def value(grid: Grid, label: str, column: str, section: str | None = None) -> Value:
    [line] = [line for line in grid.lines if line.label == label and section in (None, line.section)]
    return line.values[grid.columns.index(column)]


def expect(found: Value, shares: list[float], paper: float = nan) -> None:
    assert found.here == pytest.approx((100 * np.mean(shares), 100 * np.std(shares, ddof=1)))
    assert found.seeds == len(shares)
    assert found.paper.mean == pytest.approx(paper, nan_ok=True)


def saved(jobs: list[Job], model: str, variant: str = "as given") -> list[Job]:
    return [job for job in jobs if (job.recipe.model, job.recipe.variant) == (model, variant)]


def metric(jobs: list[Job], *path: str) -> list[float]:
    """Read anew from the files."""
    values = []
    for job in jobs:
        found: Any = json.loads((job.folder / "metrics.json").read_text())
        for name in path:
            found = found[name]
        values.append(found)
    return values


def test_every_item_in_the_papers_order(made: dict[str, Table]) -> None:
    assert tuple(made) == ITEMS
    assert all(table.grids for table in made.values())


def test_table2(plan: Plan, made: dict[str, Table]) -> None:
    runs = saved(plan.lineups["mooc"], "tgn")
    mooc = grid(made["table2"], "mooc")
    expect(value(mooc, "tgn", "AP", "transductive"), metric(runs, "transductive", "ap"), 86.96)
    expect(value(mooc, "tgn", "AUC", "inductive"), metric(runs, "inductive", "auc"), 89.03)
    found = value(mooc, "tgn", "AP", "transductive")
    assert found.difference == pytest.approx(100 * np.mean(metric(runs, "transductive", "ap")) - 86.96)
    rule = value(mooc, "edgebank", "AP", "transductive, rules")
    assert rule.seeds == 1
    assert isnan(rule.paper.mean)
    assert isnan(rule.here.std)


def test_a_model_that_tells_nothing_of_new_nodes_has_no_inductive_line(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TGN, "inductive", False)
    made = {table.name: table for table in tables(plan)}
    for name in ("table2", "fig4"):
        sections = [x.section for x in grid(made[name], "mooc").lines if x.label == "tgn"]
        assert sections == ["transductive"]


def test_a_selection_without_measures_is_empty(tmp_path: Path) -> None:
    plan = planned(tmp_path, "table2")
    fill(plan)
    [job, *_] = saved(plan.lineups["mooc"], "tgn")
    content = json.loads((job.folder / "metrics.json").read_text())
    write_json(job.folder / "metrics.json", {**content, "inductive": {"events": 0}})
    [table] = tables(plan)
    assert isnan(value(grid(table, "mooc"), "tgn", "AP", "inductive").here.mean)
    assert not isnan(value(grid(table, "mooc"), "tgn", "AP", "transductive").here.mean)


def test_table3(plan: Plan, made: dict[str, Table]) -> None:
    [only] = made["table3"].grids
    assert only.columns == ("wikipedia", "mooc")
    runs = saved(plan.lineups["wikipedia"], "contig")
    expect(value(only, "contig", "wikipedia"), [lots(j.folder.name, "transductive") for j in runs], 87.13)
    assert {line.label for line in only.lines} == {"contig", "tgn"}
    assert any("4 decoders" in note for note in made["table3"].notes)


def test_table4(plan: Plan, made: dict[str, Table]) -> None:
    wikipedia = grid(made["table4"], "wikipedia")
    assert len(wikipedia.lines) == 7
    runs = saved(plan.ablations["wikipedia"], "contig", "without update")
    expect(value(wikipedia, "without update", "AP inductive"), metric(runs, "inductive", "ap"), 95.03)
    whole = saved(plan.lineups["wikipedia"], "contig")
    expect(value(wikipedia, "contig", "AP transductive"), metric(whole, "transductive", "ap"), 98.61)


def test_fig3_and_the_gain(plan: Plan, made: dict[str, Table]) -> None:
    at_5 = {
        model: [lots(j.folder.name, "transductive", "recall@5") for j in saved(plan.lineups["mooc"], model)]
        for model in ("contig", "tgn")
    }
    expect(value(grid(made["fig3"], "mooc"), "contig", "R@5"), at_5["contig"])
    [gains] = [g for g in made["fig3"].grids if g.title.startswith("gain")]
    gain = value(gains, "mooc", "gain")
    assert gain.here.mean == pytest.approx(100 * (np.mean(at_5["contig"]) / np.mean(at_5["tgn"]) - 1))
    assert gain.paper.mean == 110.51
    assert any("were not read off" in note for note in made["fig3"].notes)


def test_fig4_and_the_lead(plan: Plan, made: dict[str, Table]) -> None:
    found = {
        model: [lots(j.folder.name, "inductive", SETS[4]) for j in saved(plan.lineups["mooc"], model)]
        for model in ("contig", "tgn")
    }
    expect(value(grid(made["fig4"], "mooc"), "tgn", SETS[4], "inductive"), found["tgn"])
    lead = value(grid(made["fig4"], "mooc: contig less tgn"), "inductive", SETS[4])
    assert lead.here.mean == pytest.approx(100 * (np.mean(found["contig"]) - np.mean(found["tgn"])))


def test_fig5(plan: Plan, made: dict[str, Table]) -> None:
    mooc = grid(made["fig5"], "mooc")
    labels = [line.label for line in mooc.lines if line.section == "horizon"]
    assert labels == ["T = 0.6", "T = 1"]
    runs = saved(plan.sweeps["mooc"]["horizon"], "contig", "horizon 0.6")
    expect(value(mooc, "T = 0.6", "AP transductive"), metric(runs, "transductive", "ap"))


def test_fig6(plan: Plan, made: dict[str, Table]) -> None:
    """The first epoch, of 50 s each, is left out."""
    measured, laws = made["fig6"].grids
    for why, jobs in plan.timings.items():
        found = timings(jobs)
        assert found == [(n, n // 5, 7 * n // 10, s) for n, s in SECONDS[why].items()]
        lines = {line.label: line.values for line in measured.lines if line.section == why}
        seconds = SECONDS[why][400]
        assert [v.here.mean for v in lines["400"]] == [280, 80, seconds, pytest.approx(280 / seconds)]
        x, y = np.log([t.trained for t in found]), np.log([t.seconds for t in found])
        law = growth(found)
        assert law is not None
        assert law.exponent == pytest.approx(np.polyfit(x, y, 1)[0])
        exponent = value(laws, why, "x")
        assert exponent.here == pytest.approx((law.exponent, law.error))
        assert exponent.paper.mean == 1.0


def test_nothing_but_saved_results_is_used(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """No stream is opened, no weights are loaded, no process is started, and a changed file shows."""
    before = tables(plan)
    for place, name in ((torch, "load"), (subprocess, "run"), (np, "load")):
        monkeypatch.setattr(place, name, lambda *_, **__: pytest.fail("that is no saved result"))
    from contig.data import datasets, storage

    monkeypatch.setattr(datasets, "open_stream", lambda *_, **__: pytest.fail("that is no saved result"))
    monkeypatch.setattr(storage, "load_stream", lambda *_, **__: pytest.fail("that is no saved result"))
    assert repr(tables(plan)) == repr(before)


def test_tables_tell_who_was_measured_on_fewer_events(tmp_path: Path) -> None:
    for name in ("table2", "fig3", "fig4"):
        for models, known in ((("contig", "gae", "ctdne"), True), (("contig", "tgn"), False)):
            [table] = tables(planned(tmp_path, name, models=models))
            assert (
                any(note.startswith("gae, ctdne: only the nodes of training") for note in table.notes)
                == known
            )


def test_table3_tells_how_many_labels_there_are(tmp_path: Path) -> None:
    plan = fill(planned(tmp_path, "table3"))
    for one in plan.evaluations["table3"]["mooc"]:
        found = json.loads(one.file.read_text())
        write_json(one.file, {**found, "labels": {"test": {"positives": 12, "events": 3456}}})
    [table] = tables(plan)
    assert "Test events with label 1: 12 of 3,456 on mooc." in table.notes


def test_what_is_not_done_is_left_out(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    assert all(table.grids == () and "Nothing of it is done" in table.notes[0] for table in tables(plan))
    fill(plan)
    [one, *_] = plan.evaluations["fig3"]["mooc"]
    one.file.unlink()
    [table] = [table for table in tables(plan) if table.name == "fig3"]
    assert value(grid(table, "mooc"), one.job.recipe.model, "MRR").seeds == 2
