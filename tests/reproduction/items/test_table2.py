"""Table 2: averages of saved metrics next to the paper's, and which model is best."""

from __future__ import annotations

import json
from dataclasses import replace
from math import isnan, nan
from pathlib import Path

import numpy as np
import pytest
from support.figures import points
from support.studies import LINKS, expect, fill, grid, group, metric, planned, runs, table_of, value

from contig.experiments.rows import Spread
from contig.files import write_json
from contig.models.tgn import TGN
from contig.reproduction.items.table2 import Table2
from contig.reproduction.plan import Plan
from contig.reproduction.tables.numbers import Grid, Line, Table, Value
from contig.reproduction.verdicts import Verdict


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return fill(planned(tmp_path_factory.mktemp("study"), "table2"))


def test_numbers(plan: Plan) -> None:
    tgn = runs(group(plan, "table2", "mooc").jobs, "tgn")
    mooc = grid(table_of(plan, "table2"), "mooc")
    expect(value(mooc, "tgn", "AP", "transductive"), metric(tgn, "transductive", "ap", file=LINKS), 86.96)
    expect(value(mooc, "tgn", "AUC", "inductive"), metric(tgn, "inductive_dyglib", "auc", file=LINKS), 89.03)
    found = value(mooc, "tgn", "AP", "transductive")
    assert found.difference == pytest.approx(
        100 * np.mean(metric(tgn, "transductive", "ap", file=LINKS)) - 86.96
    )


def test_heuristics_have_one_run_and_no_published_number(plan: Plan) -> None:
    lines = [x for x in grid(table_of(plan, "table2"), "mooc").section("transductive") if x.heuristic]
    assert [line.label for line in lines] == ["edgebank", "edgebank, window"]
    for line in lines:
        assert line.values[1].seeds == 1
        assert isnan(line.values[1].paper.mean)
        assert isnan(line.values[1].ours.std)


def test_a_model_that_cannot_score_new_nodes_has_no_inductive_line(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TGN, "inductive", False)
    table = table_of(plan, "table2")
    assert [x.section for x in grid(table, "mooc").lines if x.label == "tgn"] == ["transductive"]
    assert any(note.startswith("tgn: measured only on test events") for note in table.notes)


def test_a_section_without_events_is_empty(tmp_path: Path) -> None:
    plan = fill(planned(tmp_path, "table2"))
    [job, *_] = runs(group(plan, "table2", "mooc").jobs, "tgn")
    links = json.loads((job.folder / LINKS).read_text())
    write_json(job.folder / LINKS, {**links, "inductive_dyglib": {"events": 0}})
    mooc = grid(table_of(plan, "table2"), "mooc")
    assert isnan(value(mooc, "tgn", "AP", "inductive").ours.mean)
    assert not isnan(value(mooc, "tgn", "AP", "transductive").ours.mean)


def test_the_figure_shows_ours_beside_the_papers(plan: Plan) -> None:
    table = table_of(plan, "table2")
    figure = Table2().figure(table)
    assert figure is not None
    expected = [
        (x, float(place))
        for place, line in enumerate(table.grids[0].section("inductive"))
        for x in (line.values[1].paper.mean, line.values[1].ours.mean)
        if x == x
    ]
    assert points(figure.axes[1]) == [pytest.approx(point) for point in expected]


def test_the_summary_has_the_papers_model(plan: Plan) -> None:
    table = table_of(plan, "table2")
    summary = Table2().summary(table)
    assert summary is not None
    labels = [f"{d}, {s}" for d in ("wikipedia", "mooc") for s in ("transductive", "inductive")]
    assert [line.label for line in summary.lines] == labels
    assert summary.lines[3].values[1] == value(grid(table, "mooc"), "contig", "AP", "inductive")
    assert Table2().summary(Table("table2", "", ())) is None


def test_claims_leave_out_heuristics_and_datasets_the_paper_does_not_use() -> None:
    lines = (
        Line("contig", (Value(), Value(Spread(90.0, 0.5), Spread(80.0, 0.1), 3)), "inductive"),
        Line("tgn", (Value(), Value(Spread(88.0, 0.5), Spread(79.0, 0.1), 3)), "inductive"),
        Line("edgebank", (Value(), Value(Spread(99.0, nan), seeds=1)), "inductive", heuristic=True),
    )
    grids = tuple(Grid(name, "model", ("AUC", "AP"), lines) for name in ("mooc", "own"))
    [claim] = Table2().claims(Table("table2", "", grids))
    assert (claim.where, claim.verdict) == ("mooc, inductive", Verdict.HOLDS)
    assert claim.ours == "rank 1 of 2, +2.00 vs. tgn"


def test_models_on_other_events_are_neither_ranked_nor_bold() -> None:
    """The paper has them on the same events, so its rank with them is added."""

    def line(name: str, ours: float, theirs: float, **kind: bool) -> Line:
        return Line(name, (Value(), Value(Spread(ours, 0.5), Spread(theirs, 0.1), 3)), "transductive", **kind)

    lines = (
        line("contig", 90.0, 80.0),
        line("tgn", 88.0, 79.0),
        line("gae", 99.0, 85.0, other_events=True),
        line("ctdne", 99.0, 60.0, other_events=True),
        line("vgae", 99.0, nan, other_events=True),
    )
    grid = Grid("mooc", "model", ("AUC", "AP"), lines, rank=True)
    [claim] = Table2().claims(Table("table2", "", (grid,)))
    assert (claim.ours, claim.verdict) == ("rank 1 of 2, +2.00 vs. tgn", Verdict.HOLDS)
    assert claim.paper == "rank 1 of 2, +1.00 vs. tgn (2 of 4 with gae, ctdne)"
    lower = replace(grid, lines=tuple(x for x in lines if x.label != "gae"))
    [claim] = Table2().claims(Table("table2", "", (lower,)))
    assert claim.paper == "rank 1 of 2, +1.00 vs. tgn"
    rows = [(row.label, row.cells[1].style) for row in grid.layout().rows]
    assert [label for label, style in rows if style == "best"] == ["contig"]


@pytest.mark.parametrize("item", ["table2", "table3", "fig3", "fig4"])
def test_models_that_cannot_score_new_nodes_are_on_other_events(item: str, tmp_path: Path) -> None:
    plan = fill(planned(tmp_path, item, models=("contig", "gae", "tgn", "edgebank")))
    table = table_of(plan, item)
    for found in table.measured:
        assert {line.label for line in found.lines if line.other_events} == {"gae"}
    assert any("They are not ranked" in note for note in table.notes)
    ranks = [claim.ours for claim in plan.study.item(item).claims(table) if claim.ours.startswith("rank")]
    assert ranks
    assert all(" of 2, " in rank and "gae" not in rank for rank in ranks)


def test_the_note_counts_seeds_by_dataset_and_model_where_they_differ(tmp_path: Path) -> None:
    plan = fill(planned(tmp_path, "table2", seeds=4))

    def note() -> str:
        [found] = [note for note in table_of(plan, "table2").notes if "standard deviation over" in note]
        return found.removeprefix("Mean ± standard deviation over ")

    def drop(dataset: str, model: str, kept: int) -> None:
        for job in runs(group(plan, "table2", dataset).jobs, model)[kept:]:
            (job.folder / "metrics.json").unlink(missing_ok=True)

    assert note() == "4 seeds."
    drop("wikipedia", "tgn", 2)
    assert note() == "seeds: 2 on wikipedia, but 4 for contig; 4 on mooc."
    bars = "2 to 4 seeds (heuristics: one run), error bars ± one standard deviation"
    assert Table2().error_bars(plan.groups["table2"]) == bars
    assert value(grid(table_of(plan, "table2"), "wikipedia"), "tgn", "AP", "transductive").seeds == 2
    drop("mooc", "tgn", 2)
    assert note() == "seeds: 2 on wikipedia and mooc, but 4 for contig."
    drop("wikipedia", "contig", 2)
    assert note() == "seeds: 2 on wikipedia; 2 on mooc, but 4 for contig."
    for model in ("contig", "tgn"):
        drop("wikipedia", model, 0)
    assert note() == "seeds: 2, but 4 for contig."
    for model in ("contig", "tgn"):
        drop("mooc", model, 1)
    assert "One seed." in table_of(plan, "table2").notes


def test_models_with_other_numbers_of_seeds_are_grouped(tmp_path: Path) -> None:
    models = {"contig": 2, "tgn": 3, "gae": 2, "vgae": 3, "tgat": 1, "gat": 2, "edgebank": 1}
    plan = fill(planned(tmp_path, "table2", models=tuple(models)))
    for dataset in ("wikipedia", "mooc"):
        for model, kept in models.items():
            for job in runs(group(plan, "table2", dataset).jobs, model)[kept:]:
                (job.folder / "metrics.json").unlink()
    expected = "over seeds: 2 on wikipedia and mooc, but 1 for tgat and 3 for tgn, vgae."
    assert expected in " ".join(table_of(plan, "table2").notes)


def test_heuristics_run_once_whatever_the_number_of_seeds(tmp_path: Path) -> None:
    with_them = fill(planned(tmp_path / "a", "table2"))
    without = fill(planned(tmp_path / "b", "table2", models=("contig", "tgn")))
    one_seed = fill(planned(tmp_path / "c", "table2", seeds=1))
    found = [Table2().error_bars(plan.groups["table2"]) for plan in (with_them, without, one_seed)]
    assert found == [
        "3 seeds (heuristics: one run), error bars ± one standard deviation",
        "3 seeds, error bars ± one standard deviation",
        "one seed",
    ]
